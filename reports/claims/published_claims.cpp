#include "reports/claims/claim.hpp"

namespace kvreplay::claims {
namespace {

/// A figure that rows alone cannot tell.
Claim untestable(std::string id, std::string text, std::string source, std::string published,
                 std::string why) {
  return {.id = std::move(id),
          .text = std::move(text),
          .source = std::move(source),
          .published = std::move(published),
          .conditions = {},
          .remark = std::move(why)};
}

constexpr const char* kAccuracy = "It takes an accuracy run of the model with the evicted cache.";
constexpr const char* kPerplexity = "It takes the perplexity of the model with the evicted cache.";

}  // namespace

std::vector<Claim> published_claims() {
  const std::string h2o = "H2O, arXiv:2306.14048";
  const auto accuracy = [](const std::string& beside) {
    return std::string(kAccuracy) + " What is lost of the attention: " + beside + ".";
  };
  return {
      {"B1",
       "Entries are small in almost all layers.",
       h2o,
       "above 95 % below 1 % of the row's largest, OPT, WikiText-103",
       {above(layers_sparse(), 0.9)},
       "Almost all: more than 9 in 10. Rows of at least 100 tokens."},
      {"B2",
       "Few tokens hold most of the mass.",
       h2o,
       "a figure",
       {above(heavy_mass(), 0.5)},
       "The heaviest 5 %. For the power law see A2; how scores go with co-occurrence takes a "
       "corpus."},
      {"B3",
       "Prefix statistics choose the tokens that matter.",
       h2o,
       "no loss in accuracy",
       {above(future_overlap(), future_overlap_by_chance())},
       "In the rows to come, none of which local scores know; over steps of the text."},
      untestable("B4", "At 20 % H2O is as accurate as the full cache.", h2o,
                 "PiQA 80.09 full, 57.94 local, 79.22 H2O; COPA, OBQA, Winogrande alike",
                 accuracy("A4")),
      untestable("B5", "Heavy hitters mend static patterns.", h2o,
                 "COPA, OPT-30B: local 48 to 84, strided 50 to 83, fixed 61 to 76", accuracy("A5")),
      untestable("B6", "Heavy or recent tokens alone lose accuracy.", h2o, "2.85 to 22.75 points",
                 accuracy("A6")),
      {"B7",
       "Summed scores beat averaged ones.",
       h2o,
       "the sum is chosen",
       {below(loss("h2o", "20%"), loss("h2o-mean", "20%"))},
       "By attention mass."},
      {"B8",
       "H2O at 20 % loses less than a local cache at 60 %.",
       h2o,
       "XSUM, CNN/DailyMail: H2O is fine at 20 %, a local cache fails at 60 %",
       {below(loss("h2o", "20%"), loss("local", "60%"))},
       "By attention mass."},
      untestable("B9", "An independent run of H2O.", "FMInference/H2O #24",
                 "LLaMA-7B, OBQA 5-shot: .446 full, .412 H2O", kAccuracy),
      untestable("B10", "H2O is no better than StreamingLLM without shots.", "zyxxmu/cam #2",
                 "OBQA: .414 full, .256 streaming, .264 H2O, .31 CaM", kAccuracy),
      {"B11",
       "Pivotal tokens stay pivotal, and are few.",
       "Scissorhands, arXiv:2305.17118",
       "persistence above 95 % in most layers",
       {above(layers_persistent(), 0.5), below(pivotal_in_half(), 0.5)},
       "Pivotal: p above 1/(i+1) in any row of the half. Of a set that holds nearly all tokens "
       "persistence says nothing."},
      {"B12",
       "Later layers vary more and need more cache.",
       "Scissorhands, arXiv:2305.17118",
       "up to 5x without loss of accuracy; later layers get more",
       {above(loss("scissorhands", "20%", Setting::stream, Part::later),
              loss("scissorhands", "20%", Setting::stream, Part::earlier))},
       "By attention mass, at one budget for all. Each half of the layers is a slice by itself, "
       "run (--layers) and drawn by itself, without the middle one of an odd number. Accuracy "
       "takes a run."},
      untestable("B13", "Sinks save perplexity.", "StreamingLLM, arXiv:2309.17453",
                 "PG-19, Llama-2-13B: 0+1024 5158.07, 4+1020 5.40", kPerplexity),
      {"B14",
       "The first token takes more than half of the last one's attention in all but the two "
       "lowest layers.",
       "StreamingLLM, arXiv:2309.17453",
       "256 texts of 4,096 tokens",
       {above(layers_for_first(), 0.95)},
       "Of a slice of the layers, from the third on (--layers). All: more than 95 in 100."},
      untestable("B15", "Gated attention does away with sinks.", "Gated Attention (2025)",
                 "first token 46.7 % to 4.8 %",
                 "It takes two models, with gates and without; analyze sinks tells the first "
                 "token's share of one."),
      {"B16",
       "Sink heads are common.",
       "arXiv:2410.10781",
       "heads whose mean attention to the first token is above 0.3",
       {above(sink_heads(), 0.1)},
       "Common: more than 1 in 10."},
      {"B17",
       "About 90 % of the mass is on few tokens, and 20 to 30 % of the budget is best for "
       "recent ones.",
       "Keyformer, arXiv:2403.09054",
       "90 % of the mass on about 40 % of the tokens",
       {below(loss("topk-row", "40%"), 0.1),
        below(loss("h2o:recent=0.25", "20%"), loss("h2o:recent=0.1", "20%")),
        below(loss("h2o:recent=0.25", "20%"), loss("h2o", "20%")),
        below(loss("h2o:recent=0.25", "20%"), loss("h2o:recent=0.75", "20%"))},
       "A quarter for recent tokens against a tenth, a half and three quarters, of h2o."},
      {"B18",
       "TOVA at an eighth of the cache is close to the full one.",
       "TOVA, arXiv:2401.06104",
       "close to the full model",
       {below(loss("tova", "12.5%", Setting::layer), kAboutFull)},
       "By attention mass."},
      untestable("B19", "Few columns hold the mass of long texts.", "microsoft/MInference #164",
                 "96.4 % in the top 4,096 columns of 128K; 83.7 % for another prompt",
                 "It takes a text of 128K tokens and a model for it."),
      {"B20",
       "Sets that consecutive steps select overlap by about 60 %.",
       "ByteDance-Seed/ShadowKV #3",
       "about 60 %",
       {above(consecutive_overlap(), 0.5), below(consecutive_overlap(), 0.7)},
       "Between 50 and 70 %, of the 2 % largest weights."},
      untestable("B21", "All layers but the two lowest are sparse.", "Quest, arXiv:2406.10774",
                 "below 10 % in layers 0 and 1, above 90 % in others",
                 "Its criterion is a change of perplexity; see B1 for a threshold."),
      untestable("B22", "Budgets by head beat even ones.", "FFY0/AdaKV #4",
                 "LongBench, Mistral-7B, 128: SnapKV 34.55, Ada-SnapKV 35.48", accuracy("B24")),
      untestable("B23", "Budgets by head beat even ones at a quarter cut.", "NVIDIA/kvpress #38",
                 "RULER: SnapKV 81.8 to 88.1", accuracy("B24")),
      {"B24",
       "At an equal total, budgets by head retain more.",
       "Ada-KV, its README",
       "toy example: 2.26 to 2.48",
       {below(loss("adakv", "20%", Setting::after_prompt),
              loss("snapkv:pool=max", "20%", Setting::after_prompt))},
       "Both smooth their scores by the maximum. They keep all that is decoded, so that queries "
       "see more than the budget shows, on both sides alike: simulate stars them."},
      untestable("B25", "PyramidKV matches the full cache at 12 %.", "PyramidKV, arXiv:2406.02069",
                 "LongBench; +20.5 on TREC at 0.7 %", kAccuracy),
      untestable("B26", "SnapKV decodes faster in less memory.", "SnapKV, arXiv:2404.14469",
                 "3.6x faster, 8.2x less memory at 16K", "It takes a serving system."),
      {"B27",
       "A tenth of the keys is enough for a row.",
       "CSA blog, jasonnormore",
       "GPT-2 small 5.7 %, Pythia-410M 9.5 %, Qwen2.5-1.5B 9.9 % with unchanged perplexity",
       {below(loss("topk-row", "10%"), kAboutFull)},
       "By mass: less than 5 % of it is lost; perplexity takes a run."},
      untestable("B28", "The mass that is lost tracks perplexity.", "cold-compress", "PG-19",
                 kPerplexity),
      {"B29",
       "One set for a KV group is as good as one for each query head.",
       "KVCache-Factory",
       "+0.3 on six LongBench tasks at 128, in a quarter of the memory",
       {as_good(loss("snapkv", "20%", Setting::group_prompt),
                loss("snapkv", "20%", Setting::after_prompt))},
       "By mass, at as many tokens for each head; the memory is then that of one head of the "
       "group. snapkv keeps all that is decoded, so that queries see more than the budget shows, "
       "on both sides alike: simulate stars it."},
      untestable("B30", "H2O goes with a 4-bit cache.", h2o, "PiQA 78.80 against 78.51", kAccuracy),
  };
}

}  // namespace kvreplay::claims
