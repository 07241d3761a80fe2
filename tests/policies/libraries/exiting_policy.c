/* Ends the program, and as if all was well, when it is to name a victim. */
#include <stdlib.h>

#include "kvreplay_policy.h"

static void* create(const kvreplay_setting* setting, const double* values, char* error,
                    size_t error_size) {
  (void)setting, (void)values, (void)error, (void)error_size;
  return malloc(1);
}

static uint32_t victim(void* policy, uint32_t step, const uint32_t* tokens, uint32_t held) {
  (void)policy, (void)step, (void)tokens, (void)held;
  exit(0);
}

static const kvreplay_policy policy = {.abi = KVREPLAY_POLICY_ABI,
                                       .name = "exiting",
                                       .summary = "rings\a\nand \033[31mpaints",
                                       .rows = KVREPLAY_ROWS_NONE,
                                       .create = create,
                                       .victim = victim,
                                       .destroy = free};

const kvreplay_policy* kvreplay_policy_entry(void) {
  return &policy;
}
