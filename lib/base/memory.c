/* Memory: checked sizes, zeroed, errors by message. */
#include "base/memory.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int size_multiply(size_t a, size_t b, size_t *product)
{
	return __builtin_mul_overflow(a, b, product) ? STATUS_FAILURE : STATUS_OK;
}

int size_add(size_t a, size_t b, size_t *sum)
{
	return __builtin_add_overflow(a, b, sum) ? STATUS_FAILURE : STATUS_OK;
}

static void *no_memory(size_t count, size_t size)
{
	error_set(STATUS_FAILURE, "out of memory (%zu x %zu bytes wanted)", count, size);
	return NULL;
}

void *memory_new(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size ? size : 1);
	return memory ? memory : no_memory(count, size);
}

int memory_grow(void *pointer_address, size_t *capacity, size_t count, size_t size)
{
	if (count <= *capacity)
		return STATUS_OK;
	size_t larger = *capacity < SIZE_MAX / 2 ? *capacity * 2 : SIZE_MAX;
	if (larger < count)
		larger = count;
	if (larger < 16)
		larger = 16;
	void *memory;
	memcpy(&memory, pointer_address, sizeof memory);
	memory = reallocarray(memory, larger, size);
	if (!memory) {
		no_memory(larger, size);
		return STATUS_FAILURE;
	}
	memset((char *)memory + *capacity * size, 0, (larger - *capacity) * size);
	memcpy(pointer_address, &memory, sizeof memory);
	*capacity = larger;
	return STATUS_OK;
}

void *memory_copy(const void *data, size_t bytes)
{
	void *copy = malloc(bytes ? bytes : 1);
	if (!copy)
		return no_memory(bytes, 1);
	if (bytes)
		memcpy(copy, data, bytes);
	return copy;
}

char *memory_text(const char *text)
{
	return memory_copy(text, strlen(text) + 1);
}

void *memory_aligned(size_t bytes)
{
	size_t rounded;
	if (size_add(bytes ? bytes : 1, 63, &rounded))
		return no_memory(bytes, 1);
	rounded &= ~(size_t)63;
	void *memory = aligned_alloc(64, rounded);
	if (!memory)
		return no_memory(bytes, 1);
	memset(memory, 0, rounded);
	return memory;
}

void memory_trim(void)
{
	malloc_trim(0);
}
