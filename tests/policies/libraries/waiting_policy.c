/* Drops the oldest token, and waits with the first until the file KVREPLAY_WAIT is there. */
#include <stdlib.h>
#include <unistd.h>

#include "kvreplay_policy.h"

static void* create(const kvreplay_setting* setting, const double* values, char* error,
                    size_t error_size) {
  (void)setting, (void)values, (void)error, (void)error_size;
  return malloc(1);
}

static uint32_t victim(void* policy, uint32_t step, const uint32_t* tokens, uint32_t held) {
  (void)policy, (void)step, (void)tokens, (void)held;
  const char* const file = getenv("KVREPLAY_WAIT");
  while (file != NULL && access(file, F_OK) != 0) usleep(1000);
  return 0;
}

static const kvreplay_policy policy = {.abi = KVREPLAY_POLICY_ABI,
                                       .name = "waiting",
                                       .summary = "waits for a file",
                                       .rows = KVREPLAY_ROWS_NONE,
                                       .create = create,
                                       .victim = victim,
                                       .destroy = free};

const kvreplay_policy* kvreplay_policy_entry(void) {
  return &policy;
}
