// The textbook loop of H2O over dense rows, as one would write it once: what against_pytorch.py
// compares with.
//   plain_h2o ROWS.f32 HEADS N N THREADS BUDGET...   prints seconds, then the mean loss at each
//   budget
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

namespace {

struct Sums {
  double lost = 0;
  long steps = 0;
};

Sums replay(const float* rows, int n, int budget) {
  const int recent = budget - budget / 2;
  std::vector<char> kept(n, 0);
  std::vector<float> score(n, 0.0F);
  Sums sums;
  for (int i = 0; i < n; ++i) {
    const float* row = rows + static_cast<long>(i) * n;
    kept[i] = 1;
    float all = 0;
    float mass = 0;
    for (int j = 0; j <= i; ++j) {
      all += row[j];
      if (kept[j]) mass += row[j];
    }
    for (int j = 0; j <= i; ++j)
      if (kept[j]) score[j] += row[j] / mass;
    if (i < budget) continue;
    sums.lost += 1 - mass / all;
    ++sums.steps;
    int victim = -1;
    for (int j = 0; j <= i - recent; ++j)
      if (kept[j] && (victim < 0 || score[j] < score[victim])) victim = j;
    kept[victim] = 0;
  }
  return sums;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  const int heads = std::atoi(argv[2]);
  const int n = std::atoi(argv[3]);
  const int threads = std::atoi(argv[5]);
  std::vector<float> rows(static_cast<std::size_t>(heads) * n * n);
  std::ifstream(argv[1], std::ios::binary)
      .read(reinterpret_cast<char*>(rows.data()),
            static_cast<std::streamsize>(rows.size() * sizeof(float)));
  const int budgets = argc - 6;
  std::vector<Sums> sums(static_cast<std::size_t>(heads) * budgets);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int worker = 0; worker < threads; ++worker)
    workers.emplace_back([&, worker] {
      for (int head = worker; head < heads; head += threads)
        for (int b = 0; b < budgets; ++b)
          sums[static_cast<std::size_t>(head) * budgets + b] = replay(
              rows.data() + static_cast<std::size_t>(head) * n * n, n, std::atoi(argv[6 + b]));
    });
  for (auto& worker : workers) worker.join();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%.6f\n", seconds);
  for (int b = 0; b < budgets; ++b) {
    Sums total;
    for (int head = 0; head < heads; ++head) {
      total.lost += sums[static_cast<std::size_t>(head) * budgets + b].lost;
      total.steps += sums[static_cast<std::size_t>(head) * budgets + b].steps;
    }
    std::printf("%.9f\n", total.lost / static_cast<double>(total.steps));
  }
}
