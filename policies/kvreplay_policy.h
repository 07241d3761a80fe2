/* Eviction policies from a shared library, without rebuilding KVReplay: a small versioned C ABI.
 *
 *   cc -O2 -shared -fPIC -I policies my_policy.c -o my_policy.so
 *   kvreplay simulate T.h5 --policy-library ./my_policy.so --policy h2o,my-policy --budget 20%
 *
 * The library defines kvreplay_policy_entry(). KVReplay owns every kept set, shows the policy what
 * each query gave to the tokens held, asks it for a victim while more than the budget is held, and
 * checks every answer. One object serves one kept set over one sequence; objects are made and used
 * on several threads at once, each on one thread at a time, so keep nothing in global variables.
 *
 * At every step 0, 1, 2, ... the new token joins those held, then observe() is called once (unless
 * rows is KVREPLAY_ROWS_NONE) and then victim(), as often as tokens are too many. A row that gives
 * nothing to the tokens held arrives as zeros. Where the prompt is attended in full, victim() is
 * not called before the prompt's last step, until which `held` grows to the whole prompt, and then
 * as often as it takes. create() is also called only to describe a policy, without a step after it.
 *
 * A library may be written in C++. An exception that leaves one of its functions ends the run as a
 * wrong answer does, with its text.
 *
 * Not possible here: to evict before the query attends, to give kept sets different budgets, to go
 * by queries, keys or values, and to decide only once, after the prompt; a policy cannot hold fewer
 * tokens than the budget either.
 */
#ifndef KVREPLAY_POLICY_H
#define KVREPLAY_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVREPLAY_POLICY_ABI 1

/* What observe() is shown of a row: nothing, weights as recorded, or divided by the sum over the
 * tokens held. */
enum { KVREPLAY_ROWS_NONE = 0, KVREPLAY_ROWS_RAW = 1, KVREPLAY_ROWS_RENORMALISED = 2 };

/* A number that users may set, name=value. */
typedef struct kvreplay_parameter {
  const char* name;
  const char* meaning; /* one line */
  double otherwise;    /* its value when it is not set */
  double least;
  double most;
} kvreplay_parameter;

typedef struct kvreplay_setting {
  uint32_t budget;        /* tokens that may be held after a step */
  uint32_t tokens;        /* length of the sequence */
  uint32_t prompt_tokens; /* of it, the prompt's */
  uint32_t layer;         /* index in the model */
  uint32_t unit;          /* index of the head, or of the KV group, in the model */
  uint32_t heads;         /* how many share the kept set; their rows are pooled */
} kvreplay_setting;

typedef struct kvreplay_policy {
  uint32_t abi; /* KVREPLAY_POLICY_ABI */
  const char* name;
  const char* summary; /* one line */
  uint32_t rows;       /* KVREPLAY_ROWS_... */
  const kvreplay_parameter* parameters;
  uint32_t parameter_count;

  /* `values` holds one number per parameter. NULL, with a sentence in `error`, refuses. */
  void* (*create)(const kvreplay_setting* setting, const double* values, char* error,
                  size_t error_size);
  /* `weights[s]` is what query `step` gave to `tokens[s]`; the `held` tokens ascend, the last one
   * is `step` itself. */
  void (*observe)(void* policy, uint32_t step, const uint32_t* tokens, const double* weights,
                  uint32_t held);
  /* The position in `tokens`, below `held`, of the one that leaves for good. */
  uint32_t (*victim)(void* policy, uint32_t step, const uint32_t* tokens, uint32_t held);
  void (*destroy)(void* policy);
} kvreplay_policy;

/* Defined by the library; what it returns stays valid for as long as the library is loaded. */
const kvreplay_policy* kvreplay_policy_entry(void);

#ifdef __cplusplus
}
#endif

#endif
