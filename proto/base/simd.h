/* Compiles a function for several vector widths (HSP_CLONES); the loader chooses one at start.
 *
 * One build runs on every x86-64 machine and uses wide vectors where there are some. Off under the
 * sanitizers, which cannot run the loader's resolvers, in debug builds, and with clang, whose
 * version 14 does not take the attribute on static functions.
 *
 * Purity: pure.
 */
#ifndef HSP_SIMD_H
#define HSP_SIMD_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(HSP_DEBUG)
#define HSP_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HSP_CLONES
#endif

#endif
