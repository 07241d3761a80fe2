/* A policy with one fault, chosen by a macro when it is compiled. */
#include <math.h>
#include <stdlib.h>

#include "kvreplay_policy.h"

static void* create(const kvreplay_setting* setting, const double* values, char* error,
                    size_t error_size) {
  (void)setting, (void)values, (void)error, (void)error_size;
#ifdef FAULT_NO_STATE
  return NULL;
#else
  return malloc(1);
#endif
}

static uint32_t victim(void* policy, uint32_t step, const uint32_t* tokens, uint32_t held) {
  (void)policy, (void)step, (void)tokens;
#ifdef FAULT_BAD_VICTIM
  return held;
#else
  (void)held;
  return 0;
#endif
}

#if defined(FAULT_PARAMETER_NAME)
static const kvreplay_parameter parameters[] = {{"a=b", "", 1, 0, 2}};
#elif defined(FAULT_PARAMETER_TWICE)
static const kvreplay_parameter parameters[] = {{"a", "", 1, 0, 2}, {"a", "", 1, 0, 2}};
#elif defined(FAULT_PARAMETER_RANGE)
static const kvreplay_parameter parameters[] = {{"a", "", 3, 0, 2}};
#elif defined(FAULT_PARAMETER_NAN)
static const kvreplay_parameter parameters[] = {{"a", "", NAN, 0, 2}};
#else
#define NO_PARAMETERS
#endif

static const kvreplay_policy policy = {
#ifdef FAULT_ANOTHER_ABI
    .abi = KVREPLAY_POLICY_ABI + 1,
#else
    .abi = KVREPLAY_POLICY_ABI,
#endif
#if defined(FAULT_BAD_NAME)
    .name = "Bad Name",
#elif defined(FAULT_NO_STATE)
    .name = "stateless",
#elif defined(FAULT_TAKEN_NAME)
    .name = "h2o",
#elif defined(FAULT_PART_NAME)
    .name = "heavy",
#else
    .name = "faulty",
#endif
    .summary = "has a fault",
#if defined(FAULT_NO_OBSERVE)
    .rows = KVREPLAY_ROWS_RAW,
#elif defined(FAULT_BAD_ROWS)
    .rows = 7,
#endif
#ifndef NO_PARAMETERS
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
#endif
#ifdef FAULT_NO_LIST
    .parameter_count = 2,
#endif
    .create = create,
#ifndef FAULT_NO_VICTIM
    .victim = victim,
#endif
    .destroy = free};

#ifndef FAULT_NO_ENTRY
const kvreplay_policy* kvreplay_policy_entry(void) {
#ifdef FAULT_NO_POLICY
  return NULL;
#else
  return &policy;
#endif
}
#else
const kvreplay_policy* kvreplay_policy_of_another_name(void) {
  return &policy;
}
#endif
