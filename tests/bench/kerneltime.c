/* Notes when a GPU was busy: each kernel, copy and fill of a process, as CUPTI times them.
 *
 * Role:    a module that the CUDA driver loads into a program which knows nothing of it, when
 *          CUDA_INJECTION64_PATH names it; tests/claims/gpu-speed reads its output.
 * Output:  the file HSPMD_KERNELTIME, complete when the program has ended by itself: a line
 *          "k|c|f START END STREAM NAME" each, nanoseconds of CUPTI's clock; last "dropped N".
 *          Without that variable, or where there is no libcupti.so of the version this was built
 *          for, nothing.
 * Threads: CUPTI gives full buffers from a thread of its own. */
#include <cupti.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUPTI "libcupti.so.13" /* whose records these are; configure looked */

enum { BUFFER_BYTES = 8 << 20, ALIGNMENT = 64 };

int InitializeInjection(void); /* as the driver calls it */

static CUptiResult (*next_record)(uint8_t *, size_t, CUpti_Activity **);
static CUptiResult (*count_dropped)(CUcontext, uint32_t, size_t *);
static CUptiResult (*flush_all)(uint32_t);
static FILE *out;
static size_t dropped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The function @name, or false. A pointer to data holds one of a function (POSIX). */
static bool find(void *lib, const char *name, void *ret, size_t bytes)
{
    void *p = dlsym(lib, name);
    if (p == NULL || bytes != sizeof p) {
        (void)fprintf(stderr, "kerneltime: no %s in CUPTI\n", name);
        return false;
    }
    memcpy(ret, &p, bytes);
    return true;
}
#define FIND(lib, name, ret) find(lib, name, &(ret), sizeof(ret))

static void CUPTIAPI give_buffer(uint8_t **ret, size_t *ret_bytes, size_t *ret_records)
{
    *ret = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
    *ret_bytes = *ret != NULL ? BUFFER_BYTES : 0;
    *ret_records = 0; /* as many as fit */
}

static void note(char kind, uint64_t start, uint64_t end, uint32_t stream, const char *name)
{
    if (out == NULL) { /* after the end */
        return;
    }
    (void)fprintf(out, "%c %" PRIu64 " %" PRIu64 " %" PRIu32 " %s\n", kind, start, end, stream,
                  name != NULL ? name : "?");
}

static void note_record(const CUpti_Activity *r)
{
    if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const void *)r;
        note('k', k->start, k->end, k->streamId, k->name);
    } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *c = (const void *)r;
        note('c', c->start, c->end, c->streamId, "copy");
    } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *f = (const void *)r;
        note('f', f->start, f->end, f->streamId, "fill");
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                 size_t valid)
{
    CUpti_Activity *r = NULL;
    size_t n = 0;
    (void)bytes;
    (void)pthread_mutex_lock(&lock);
    while (valid > 0 && next_record(buffer, valid, &r) == CUPTI_SUCCESS) {
        note_record(r);
    }
    if (count_dropped(context, stream, &n) == CUPTI_SUCCESS) {
        dropped += n;
    }
    (void)pthread_mutex_unlock(&lock);
    free(buffer);
}

static void finish(void)
{
    (void)flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    (void)pthread_mutex_lock(&lock);
    (void)fprintf(out, "dropped %zu\n", dropped);
    (void)fclose(out);
    out = NULL;
    (void)pthread_mutex_unlock(&lock);
}

static bool start(void *lib)
{
    static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                               CUPTI_ACTIVITY_KIND_MEMCPY,
                                               CUPTI_ACTIVITY_KIND_MEMSET};
    CUptiResult (*get_version)(uint32_t *) = NULL;
    CUptiResult (*set_callbacks)(CUpti_BuffersCallbackRequestFunc,
                                 CUpti_BuffersCallbackCompleteFunc) = NULL;
    CUptiResult (*enable)(CUpti_ActivityKind) = NULL;
    uint32_t version = 0;
    if (!FIND(lib, "cuptiGetVersion", get_version) ||
        !FIND(lib, "cuptiActivityRegisterCallbacks", set_callbacks) ||
        !FIND(lib, "cuptiActivityEnable", enable) ||
        !FIND(lib, "cuptiActivityGetNextRecord", next_record) ||
        !FIND(lib, "cuptiActivityGetNumDroppedRecords", count_dropped) ||
        !FIND(lib, "cuptiActivityFlushAll", flush_all)) {
        return false;
    }
    /* Records grow at their end within a major version. */
    if (get_version(&version) != CUPTI_SUCCESS || version / 10000 != CUPTI_API_VERSION / 10000) {
        (void)fprintf(stderr, "kerneltime: CUPTI %" PRIu32 " here, built for %d\n", version,
                      CUPTI_API_VERSION);
        return false;
    }
    if (set_callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) {
        return false;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (enable(kinds[i]) != CUPTI_SUCCESS) {
            (void)fprintf(stderr, "kerneltime: CUPTI does not time kind %d\n", (int)kinds[i]);
            return false;
        }
    }
    return true;
}

int InitializeInjection(void)
{
    const char *path = getenv("HSPMD_KERNELTIME");
    void *lib = path != NULL ? dlopen(CUPTI, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (path == NULL || lib == NULL) {
        (void)fprintf(stderr, "kerneltime: %s\n", path != NULL ? dlerror() : "no HSPMD_KERNELTIME");
        return 1;
    }
    out = fopen(path, "w");
    if (out != NULL && start(lib)) {
        (void)atexit(finish);
    }
    return 1;
}
