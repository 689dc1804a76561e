/* Memory: checked sizes, zeroed, errors by message instead of abort. */
#ifndef NIGHTSHIFT_BASE_MEMORY_H
#define NIGHTSHIFT_BASE_MEMORY_H

#include <stddef.h>

/* count x size zeroed bytes; NULL and a message (STATUS_FAILURE) when there is no memory or the product overflows.
 * A count of 0 gives a valid pointer. Free with free(). */
void *memory_new(size_t count, size_t size);
/* Grows *pointer (owned, may be NULL) to hold at least `count` elements, doubling *capacity; new part zeroed. */
int memory_grow(void *pointer_address, size_t *capacity, size_t count, size_t size);
/* Copies; NULL and a message on failure. Free with free(). */
char *memory_text(const char *text);
void *memory_copy(const void *data, size_t bytes);
/* 64-byte aligned and zeroed; free with free(). */
void *memory_aligned(size_t bytes);
/* Gives what was freed back to the system, behind a part that needed much for a while. */
void memory_trim(void);
/* a x b (+ c) without overflow; 0 on success, else STATUS_FAILURE without message. */
int size_multiply(size_t a, size_t b, size_t *product);
int size_add(size_t a, size_t b, size_t *sum);

#endif
