/* A worked example of a policy of one's own: attention that fades. Every row multiplies the scores
 * by `fade` and adds itself; the lowest score leaves, but never one of the `recent` newest tokens. */
#include <stdio.h>
#include <stdlib.h>

#include "kvreplay_policy.h"

typedef struct {
  double fade;
  uint32_t recent;
  double scores[]; /* by token */
} fading;

static void* create(const kvreplay_setting* setting, const double* values, char* error,
                    size_t error_size) {
  if (values[1] > setting->budget) {
    snprintf(error, error_size, "recent %.0f exceeds the budget of %u tokens", values[1],
             setting->budget);
    return NULL;
  }
  fading* policy = calloc(1, sizeof(fading) + setting->tokens * sizeof(double));
  if (policy != NULL) *policy = (fading){.fade = values[0], .recent = (uint32_t)values[1]};
  return policy;
}

static void observe(void* state, uint32_t step, const uint32_t* tokens, const double* weights,
                    uint32_t held) {
  (void)step;
  double* scores = ((fading*)state)->scores;
  for (uint32_t s = 0; s < held; ++s)
    scores[tokens[s]] = scores[tokens[s]] * ((fading*)state)->fade + weights[s];
}

static uint32_t victim(void* state, uint32_t step, const uint32_t* tokens, uint32_t held) {
  (void)step;
  const fading* policy = state;
  uint32_t least = 0;
  for (uint32_t s = 1; s < held - policy->recent; ++s)
    if (policy->scores[tokens[s]] < policy->scores[tokens[least]]) least = s;
  return least;
}

static const kvreplay_parameter parameters[] = {
    {"fade", "what a score is multiplied by at every step", 0.98, 0, 1},
    {"recent", "newest tokens that cannot leave", 0, 0, 1e9}};

static const kvreplay_policy policy = {
    KVREPLAY_POLICY_ABI, "fading-attention", "the highest attention, old rows counting less and less",
    KVREPLAY_ROWS_RENORMALISED, parameters, 2, create, observe, victim, free};

const kvreplay_policy* kvreplay_policy_entry(void) { return &policy; }
