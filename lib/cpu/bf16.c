/* Which bfloat16 unit this processor and system have. */
#include "cpu/bf16.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#ifdef __x86_64__
#include <cpuid.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define TILE_DATA 18 /* state component */

/* Register `eax` of leaf 7, subleaf 1, and `edx` of subleaf 0; 0 where there is none. */
static void leaf7(unsigned *eax1, unsigned *edx0)
{
	unsigned a = 0, b = 0, c = 0, d = 0;
	*eax1 = *edx0 = 0;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return;
	*edx0 = d;
	if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
		*eax1 = a;
}

/* The other parts of AVX-512 are asked for by name: the compiler's answer knows whether the system saves the registers. */
static bool has_avx512(void)
{
	unsigned eax1, edx0;
	leaf7(&eax1, &edx0);
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (eax1 & 1u << 5) != 0;
}

/* Tiles need the system's leave, once for all threads of the process. */
static bool has_amx(void)
{
	unsigned eax1, edx0;
	leaf7(&eax1, &edx0);
	return has_avx512() && (edx0 & 1u << 22) != 0 && (edx0 & 1u << 24) != 0 &&
	       syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}
#endif

static bool has_plain(void)
{
	return true;
}

/* From the best down; those for tests behind them. */
static const struct choice {
	const struct bf16 *unit;
	bool (*supported)(void);
	bool automatic;
} choices[] = {
#ifdef __x86_64__
	{&bf16_amx, has_amx, true},
	{&bf16_avx512, has_avx512, true},
#endif
	{&bf16_amx_plain, has_plain, false},
	{&bf16_avx512_plain, has_plain, false},
};

int bf16_choose(const char *name, const struct bf16 **unit)
{
	const bool automatic = strcmp(name, "bf16") == 0;
	for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
		const struct choice *c = &choices[i];
		if ((automatic ? c->automatic : strcmp(name, c->unit->name) == 0) && c->supported()) {
			*unit = c->unit;
			return STATUS_OK;
		}
	}
	return error_set(STATUS_UNAVAILABLE,
		"precision = \"%s\": this processor does not have it; choose \"f32\"%s", name,
		automatic ? "" : " or \"bf16\"");
}
