/* libkvreplay: records the attention of any engine as a KVReplay trace. The engine hands over the
 * queries and keys of each layer behind the position embedding, as they enter the product q.k; the
 * library computes the rows, encodes them and writes the trace.
 *
 *   kvreplay_trace* trace = kvreplay_begin("run.h5", &model, &options, NULL, error, sizeof error);
 *   each forward pass, each layer:
 *     kvreplay_record(trace, layer, position, tokens, &q, &k, NULL, error, sizeof error);
 *   kvreplay_end(trace, tokens, ids, texts, error, sizeof error);
 *
 * One sequence a trace: no batch. Positions of a layer come in order, without gaps; layers in any
 * order. kvreplay_record() may be called from several threads, of one trace one runs at a time; traces
 * are independent. A trace is ended or aborted once, when no other call of it runs or will come. No function throws, exits or prints. Functions return 0 or one of KVREPLAY_ERROR_*
 * and write one sentence to `error`, which may be NULL. A record that ends with
 * KVREPLAY_ERROR_ARGUMENT has taken nothing; after any other failure the trace takes no more:
 * kvreplay_abort() it.
 *
 * Compile with `pkg-config --cflags --libs kvreplay`. An example: capture/api/record_example.c.
 */
#ifndef KVREPLAY_H
#define KVREPLAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVREPLAY_API_VERSION 1
#if defined(__GNUC__)
#define KVREPLAY_API __attribute__((visibility("default")))
#else
#define KVREPLAY_API
#endif

/* The program's exit codes mean the same. */
enum {
  KVREPLAY_ERROR_UNEXPECTED = 1, /* a fault of the library or of the machine (out of memory) */
  KVREPLAY_ERROR_ARGUMENT = 2,   /* a number out of range, a pointer that is missing */
  KVREPLAY_ERROR_INPUT = 3,      /* numbers or scores that are not finite */
  KVREPLAY_ERROR_OUTPUT = 4      /* the trace cannot be written: it exists, no permission, disk full */
};

typedef struct kvreplay_trace kvreplay_trace;

/* How a layer attends. */
typedef struct kvreplay_attention {
  double scale;    /* factor on q.k; 0: 1 / sqrt(head_size) */
  double softcap;  /* c of c tanh(score / c); 0: none */
  uint32_t window; /* tokens that a query sees, itself included; 0: all */
} kvreplay_attention;

typedef struct kvreplay_model {
  uint32_t layers;
  uint32_t heads;                      /* query heads */
  uint32_t kv_heads;                   /* they divide the query heads */
  uint32_t head_size;                  /* of queries and keys, and of values if they are given */
  const kvreplay_attention* attention; /* of each layer; NULL: all zeros */
  const char* name;                    /* these may be NULL */
  const char* architecture;            /* "llama" */
  const char* compute_type;            /* of queries and keys where they were computed: "bf16" */
} kvreplay_model;

/* All zeros but the tokens: rows of all layers and heads in fp16, nothing overwritten. */
typedef struct kvreplay_options {
  uint32_t tokens;              /* the most that will come; space for them is set aside */
  uint32_t prompt_tokens;       /* the rest is decoded; 0: all are the prompt */
  const uint32_t* prompt_ids;   /* prompt_tokens of them, for the trace's fingerprint, or NULL */
  const char* encoding;         /* "fp16" (NULL), "fp32", "u16log", "factors" */
  const uint32_t* layers;       /* that are recorded, ascending; NULL: all */
  uint32_t layer_count;
  const uint32_t* heads;        /* query heads that are recorded, ascending; NULL: all */
  uint32_t head_count;
  uint32_t rows_from;           /* the first row that is recorded */
  uint32_t rows_every;          /* then one row in so many; 0: 1 */
  int values;                   /* not 0: values are recorded too */
  int norms;                    /* not 0: norms of keys and values are */
  int overwrite;                /* not 0: a trace of this name is replaced */
} kvreplay_options;

enum { KVREPLAY_F32 = 0, KVREPLAY_F16 = 1, KVREPLAY_BF16 = 2 };
enum { KVREPLAY_HOST = 0, KVREPLAY_DEVICE = 1 };

/* Vectors [tokens][heads][head_size]; the head_size numbers of one lie behind one another. */
typedef struct kvreplay_vectors {
  const void* data;
  int type;             /* KVREPLAY_F32, ... */
  int memory;           /* KVREPLAY_DEVICE: CUDA memory; the caller has it computed by now */
  size_t token_stride;  /* numbers from a token's vectors to the next one's */
  size_t head_stride;   /* numbers from a head's vector to the next one's */
} kvreplay_vectors;

/* NULL where it fails; `error` says why, and code, if not NULL, gets KVREPLAY_ERROR_*. */
KVREPLAY_API kvreplay_trace* kvreplay_begin(const char* path, const kvreplay_model* model,
                               const kvreplay_options* options, int* code, char* error,
                               size_t error_size);

/* The next tokens of a layer, at positions position .. position + tokens - 1: queries of `heads`
 * heads, keys and values of `kv_heads` heads. Keys and values of earlier tokens are kept from their
 * own calls. Values may be NULL where neither they nor norms are recorded. A layer that is not
 * recorded may be left out; its call does nothing. */
KVREPLAY_API int kvreplay_record(kvreplay_trace* trace, uint32_t layer, uint32_t position, uint32_t tokens,
                    const kvreplay_vectors* queries, const kvreplay_vectors* keys,
                    const kvreplay_vectors* values, char* error, size_t error_size);

/* Seals the trace, which all recorded layers have given `tokens` tokens. Token ids and texts, as
 * many, may be NULL; texts are bytes up to a 0. The trace is gone afterwards, whatever comes out:
 * where it fails, what was whole is kept as PATH.partial. */
KVREPLAY_API int kvreplay_end(kvreplay_trace* trace, uint32_t tokens, const uint32_t* token_ids,
                 const char* const* texts, char* error, size_t error_size);

/* Gives up: rows that are whole in all layers stay as PATH.partial, none leave no file. NULL is
 * nothing to give up. */
KVREPLAY_API void kvreplay_abort(kvreplay_trace* trace);

/* "0.1.0" */
KVREPLAY_API const char* kvreplay_version(void);

#ifdef __cplusplus
}
#endif
#endif
