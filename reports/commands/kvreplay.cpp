#include "reports/commands/command.hpp"

int main() {
  return 0;
}
