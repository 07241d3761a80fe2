/* Drops the oldest token, and sends Ctrl-C to its own program at the first eviction of layer 1. */
#include <signal.h>
#include <stdlib.h>

#include "kvreplay_policy.h"

static void* create(const kvreplay_setting* setting, const double* values, char* error,
                    size_t error_size) {
  (void)values, (void)error, (void)error_size;
  uint32_t* layer = malloc(sizeof(*layer));
  if (layer != NULL) *layer = setting->layer;
  return layer;
}

static uint32_t victim(void* policy, uint32_t step, const uint32_t* tokens, uint32_t held) {
  (void)step, (void)tokens, (void)held;
  uint32_t* layer = policy;
  if (*layer == 1) raise(SIGINT);
  *layer = 0;
  return 0;
}

static const kvreplay_policy policy = {.abi = KVREPLAY_POLICY_ABI,
                                       .name = "interrupting",
                                       .summary = "sends Ctrl-C",
                                       .rows = KVREPLAY_ROWS_NONE,
                                       .create = create,
                                       .victim = victim,
                                       .destroy = free};

const kvreplay_policy* kvreplay_policy_entry(void) {
  return &policy;
}
