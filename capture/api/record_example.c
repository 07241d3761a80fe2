/* Records a made-up run of 2 layers, 4 query heads over 2 KV heads, as an engine would: a prompt of
 * 48 tokens in one pass, then 16 tokens one by one.
 *
 *   cc record_example.c $(pkg-config --cflags --libs kvreplay) -o record_example
 *   ./record_example run.h5 && kvreplay simulate run.h5
 */
#include <stdio.h>
#include <stdlib.h>

#include "kvreplay.h"

enum { LAYERS = 2, HEADS = 4, KV_HEADS = 2, SIZE = 16, PROMPT = 48, TOKENS = 64 };

/* Stands for what the engine computes: numbers between -1 and 1. */
static void compute(float* vectors, size_t count) {
  for (size_t i = 0; i < count; ++i) vectors[i] = 2.0F * (float)rand() / (float)RAND_MAX - 1.0F;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: record_example TRACE.h5\n");
    return 2;
  }
  static float q[TOKENS * HEADS * SIZE];
  static float k[TOKENS * KV_HEADS * SIZE];
  static uint32_t ids[TOKENS];
  for (uint32_t i = 0; i < TOKENS; ++i) ids[i] = 1000 + i;

  char error[512];
  const kvreplay_model model = {.layers = LAYERS, .heads = HEADS, .kv_heads = KV_HEADS, .head_size = SIZE, .name = "made up"};
  const kvreplay_options options = {.tokens = TOKENS, .prompt_tokens = PROMPT, .prompt_ids = ids};
  kvreplay_trace* trace = kvreplay_begin(argv[1], &model, &options, NULL, error, sizeof error);
  if (trace == NULL) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  const kvreplay_vectors queries = {.data = q, .type = KVREPLAY_F32, .token_stride = HEADS * SIZE, .head_stride = SIZE};
  const kvreplay_vectors keys = {.data = k, .type = KVREPLAY_F32, .token_stride = KV_HEADS * SIZE, .head_stride = SIZE};

  for (uint32_t position = 0; position < TOKENS;) {
    const uint32_t tokens = position == 0 ? PROMPT : 1;
    for (uint32_t layer = 0; layer < LAYERS; ++layer) {
      compute(q, (size_t)tokens * HEADS * SIZE);
      compute(k, (size_t)tokens * KV_HEADS * SIZE);
      if (kvreplay_record(trace, layer, position, tokens, &queries, &keys, NULL, error, sizeof error) != 0) {
        fprintf(stderr, "%s\n", error);
        kvreplay_abort(trace);
        return 1;
      }
    }
    position += tokens;
  }
  if (kvreplay_end(trace, TOKENS, ids, NULL, error, sizeof error) != 0) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  return 0;
}
