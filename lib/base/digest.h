/* Checksums: CRC-32C (hardware where there is one, same values in software) and SHA-256. */
#ifndef NIGHTSHIFT_BASE_DIGEST_H
#define NIGHTSHIFT_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Finished CRC-32C of data that follows data with the finished value `crc`; start with 0. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
uint32_t crc32c_software(uint32_t crc, const void *data, size_t bytes); /* the body where there is no instruction */
/* CRC-32C of A followed by B, from the two values and the length of B. */
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t bytes_b);

/* SHA-256 (libnettle), streaming. */
struct sha256 {
	unsigned char opaque[128] __attribute__((aligned(16)));
};
void sha256_init(struct sha256 *state);
void sha256_update(struct sha256 *state, const void *data, size_t bytes);
void sha256_hex(struct sha256 *state, char hex[65]); /* finishes; NUL-terminated lower case */

#endif
