/* Records a run of llama.cpp: observes queries and keys behind the position embedding. LLAMA_CPP.md
 * says what must be set and why.
 *
 *   cc record_llama_cpp.c -I LLAMA_CPP/include -I LLAMA_CPP/ggml/include $(pkg-config --cflags --libs kvreplay) \
 *     -L LIBS -lllama -lggml -lggml-base -o record_llama_cpp
 *   ./record_llama_cpp model.gguf run.h5 64 "Once upon a time"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-backend.h"
#include "ggml.h"
#include "kvreplay.h"
#include "llama.h"

enum { MOST_TOKENS = 4096 };

typedef struct {
  kvreplay_trace* trace;
  uint32_t* positions; /* by layer: tokens recorded */
  float* numbers;
  ggml_fp16_t* queries;
  ggml_fp16_t* keys;
  size_t query_heads; /* 0: the layer's queries are still to come */
  size_t key_heads;
  char error[512];
} recording;

/* The scheduler asks of every node whether it is wanted, and later shows those that are. */
static bool observe(struct ggml_tensor* node, bool ask, void* data) {
  recording* run = data;
  const bool is_query = strncmp(node->name, "Qcur-", 5) == 0;
  const bool is_key = strncmp(node->name, "Kcur-", 5) == 0;
  /* Several nodes have each name; those behind the position embedding enter the product. */
  if ((!is_query && !is_key) || node->op != GGML_OP_ROPE) return !ask;
  if (ask) return true;

  const size_t size = (size_t)node->ne[0];
  const size_t heads = (size_t)node->ne[1];
  const uint32_t tokens = (uint32_t)node->ne[2];
  const uint32_t layer = (uint32_t)atoi(node->name + 5);
  /* From whatever device; contiguous, as the operation makes them. What enters the product are keys
   * as the cache holds them, and queries that the CPU rounds to the type of the keys. */
  ggml_backend_tensor_get(node, run->numbers, 0, ggml_nbytes(node));
  ggml_fp32_to_fp16_row(run->numbers, is_query ? run->queries : run->keys, ggml_nelements(node));
  if (is_query) run->query_heads = heads;
  if (is_key) run->key_heads = heads;
  if (run->query_heads == 0 || run->key_heads == 0) return true;

  const kvreplay_vectors q = {.data = run->queries, .type = KVREPLAY_F16, .token_stride = run->query_heads * size, .head_stride = size};
  const kvreplay_vectors k = {.data = run->keys, .type = KVREPLAY_F16, .token_stride = run->key_heads * size, .head_stride = size};
  run->query_heads = run->key_heads = 0;
  if (kvreplay_record(run->trace, layer, run->positions[layer], tokens, &q, &k, NULL, run->error, sizeof run->error) != 0) return false;
  run->positions[layer] += tokens;
  return true; /* false would end the run */
}

int main(int argc, char** argv) {
  if (argc != 5) return fprintf(stderr, "usage: record_llama_cpp MODEL.gguf TRACE.h5 GENERATE PROMPT\n"), 2;
  const uint32_t generate = (uint32_t)atoi(argv[3]);
  llama_backend_init();
  struct llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == NULL) return 3;
  const struct llama_vocab* vocabulary = llama_model_get_vocab(model);
  static llama_token ids[MOST_TOKENS];
  int32_t tokens = llama_tokenize(vocabulary, argv[4], (int32_t)strlen(argv[4]), ids, MOST_TOKENS, true, true);
  if (tokens < 1 || (uint32_t)tokens + generate > MOST_TOKENS) return fprintf(stderr, "the text does not fit\n"), 2;

  const uint32_t layers = (uint32_t)llama_model_n_layer(model);
  const uint32_t heads = (uint32_t)llama_model_n_head(model);
  const uint32_t size = (uint32_t)llama_model_n_embd(model) / heads; /* where the model does not say otherwise */
  const size_t numbers = (size_t)MOST_TOKENS * heads * size;
  recording run = {.positions = calloc(layers, sizeof(uint32_t)), .numbers = malloc(numbers * sizeof(float)),
                   .queries = malloc(numbers * sizeof(ggml_fp16_t)), .keys = malloc(numbers * sizeof(ggml_fp16_t))};
  char name[128];
  llama_model_desc(model, name, sizeof name);
  const kvreplay_model facts = {.layers = layers, .heads = heads, .kv_heads = (uint32_t)llama_model_n_head_kv(model),
                                .head_size = size, .name = name, .compute_type = "fp16"};
  const kvreplay_options options = {.tokens = (uint32_t)tokens + generate, .prompt_tokens = (uint32_t)tokens, .prompt_ids = (const uint32_t*)ids};
  run.trace = kvreplay_begin(argv[2], &facts, &options, NULL, run.error, sizeof run.error);
  if (run.trace == NULL) return fprintf(stderr, "%s\n", run.error), 1;

  struct llama_context_params settings = llama_context_default_params();
  settings.n_ctx = MOST_TOKENS;
  settings.n_batch = MOST_TOKENS;
  settings.type_k = GGML_TYPE_F16; /* what keys are rounded to */
  settings.cb_eval = observe;
  settings.cb_eval_user_data = &run;
  struct llama_context* context = llama_init_from_model(model, settings);
  struct llama_sampler* sampler = llama_sampler_init_greedy();
  if (context == NULL) return 1;

  int32_t first = 0;
  for (uint32_t step = 0; step <= generate; ++step) {
    if (llama_decode(context, llama_batch_get_one(ids + first, tokens - first)) != 0) {
      fprintf(stderr, "%s\n", run.error);
      kvreplay_abort(run.trace);
      return 1;
    }
    first = tokens;
    if (step < generate) ids[tokens++] = llama_sampler_sample(sampler, context, -1);
  }
  if (kvreplay_end(run.trace, (uint32_t)tokens, (const uint32_t*)ids, NULL, run.error, sizeof run.error) != 0)
    return fprintf(stderr, "%s\n", run.error), 1;
  return 0;
}
