#include "tests/lib/oom.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/arena.h"
#include "proto/base/hash.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"

#ifdef HSP_SANITIZE
#define SANITIZED true
#else
#define SANITIZED false
#endif
#define STACK_DEPTH 48
#define STACK_SLOTS (1u << 16) /* places in the code that lead to an allocation */
#define WAY_DEPTH   7 /* frames that make a way through the code: three of ours, four of the code */
#define WAYS_MAX    (1u << 14)

static struct {
    pthread_mutex_t lock; /* of all but live */
    bool armed, on, hit, marking;
    uint64_t nth, n;
    atomic_int_least64_t live;
} oom = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local bool inside; /* the harness's own allocations never fail */

/* Shared with the children of hsp_oom_fork. */
static struct places {
    uint32_t n;
    uintptr_t at[STACK_SLOTS]; /* open addressing; 0: free */
    uint32_t n_ways, n_new;
    uint64_t way[2 * WAYS_MAX]; /* the same: hashes of ways that failed, or will */
    uint64_t fresh[WAYS_MAX];   /* allocations of the run that was marked with ways new to us */
} * places;
static bool asked;

/* ---- evidence ---- */

static int first_base(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(uintptr_t *)data = info->dlpi_addr;
    return 1; /* the first one is the program */
}

static void write_places(void)
{
    const char *build = getenv("HSPMD_BUILD"),
               *room = strstr(program_invocation_name, "tests/unit/");
    char path[4096];
    uintptr_t base = 0;
    (void)dl_iterate_phdr(first_base, &base);
    (void)snprintf(path, sizeof path, "%s/%s.stacks", build, room != NULL ? room : "oom");
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        (void)fprintf(stderr, "# cannot write %s\n", path);
        return;
    }
    for (uint32_t i = 0; i < STACK_SLOTS; i++) {
        if (places->at[i] > base) {
            (void)fprintf(f, "%jx\n", (uintmax_t)(places->at[i] - base));
        }
    }
    (void)fclose(f);
}

/* Before the first count: the unwinder allocates. */
static void ask_for_evidence(void)
{
    if (asked) {
        return;
    }
    asked = true;
    if (!SANITIZED && getenv("HSPMD_BUILD") != NULL && getenv("HSPMD_VALGRIND") == NULL) {
        void *frame[2];
        (void)backtrace(frame, 2);
        places =
            mmap(NULL, sizeof *places, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (places == MAP_FAILED || atexit(write_places) != 0) {
            abort();
        }
    }
}

static void note_stack(void)
{
    void *frame[STACK_DEPTH];
    int n = places != NULL ? backtrace(frame, STACK_DEPTH) : 0;
    for (int i = 0; i < n; i++) {
        uintptr_t at = (uintptr_t)frame[i];
        uint32_t slot = (uint32_t)(hsp_mix64(at) % STACK_SLOTS);
        while (places->at[slot] != 0 && places->at[slot] != at) {
            slot = (slot + 1) % STACK_SLOTS;
        }
        if (places->at[slot] == 0 && places->n < STACK_SLOTS / 2) {
            places->at[slot] = at;
            places->n++;
        }
    }
}

/* Whether the way to here is new. */
static void mark_way(uint64_t n)
{
    void *frame[WAY_DEPTH] = {0};
    int depth = backtrace(frame, WAY_DEPTH);
    uint64_t hash = hsp_hash64(frame, (size_t)depth * sizeof frame[0], 1) | 1;
    uint32_t slot = (uint32_t)(hash % (2 * WAYS_MAX));
    while (places->way[slot] != 0 && places->way[slot] != hash) {
        slot = (slot + 1) % (2 * WAYS_MAX);
    }
    if (places->way[slot] == 0 && places->n_ways < WAYS_MAX) {
        places->way[slot] = hash;
        places->n_ways++;
        places->fresh[places->n_new++] = n;
    }
}

/* ---- the allocator ---- */

static bool refuse_locked(void)
{
    if (!oom.armed) {
        return false;
    }
    oom.n++;
    if (oom.marking) {
        mark_way(oom.n);
    }
    if (oom.nth == 0 || oom.n < oom.nth || (oom.n > oom.nth && !oom.on)) {
        return false;
    }
    oom.hit = true;
    note_stack();
    errno = ENOMEM;
    return true;
}

static bool refuse(void)
{
    if (inside) {
        return false;
    }
    inside = true;
    (void)pthread_mutex_lock(&oom.lock);
    bool no = refuse_locked();
    (void)pthread_mutex_unlock(&oom.lock);
    inside = false;
    return no;
}

#ifndef HSP_SANITIZE /* which have an allocator of their own */
static void *count(void *p)
{
    oom.live += p != NULL ? 1 : 0;
    return p;
}

/* The next function of this name behind the program: the C library's or a sanitizer's. */
static void *next(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);
    if (p == NULL) {
        abort();
    }
    return p;
}

#define NEXT(ret, name, ...)           \
    static ret (*real)(__VA_ARGS__);   \
    if (real == NULL) {                \
        *(void **)&real = next(#name); \
    }

void *malloc(size_t n)
{
    NEXT(void *, malloc, size_t)
    return refuse() ? NULL : count(real(n));
}

void *calloc(size_t n, size_t size)
{
    NEXT(void *, calloc, size_t, size_t)
    return refuse() ? NULL : count(real(n, size));
}

void *realloc(void *old, size_t n)
{
    NEXT(void *, realloc, void *, size_t)
    if (refuse()) {
        return NULL;
    }
    void *p = real(old, n);
    return old == NULL ? count(p) : p;
}

void *aligned_alloc(size_t align, size_t n)
{
    NEXT(void *, aligned_alloc, size_t, size_t)
    return refuse() ? NULL : count(real(align, n));
}

int posix_memalign(void **ret, size_t align, size_t n)
{
    NEXT(int, posix_memalign, void **, size_t, size_t)
    if (refuse()) {
        return ENOMEM;
    }
    int rc = real(ret, align, n);
    if (rc == 0) {
        (void)count(*ret);
    }
    return rc;
}

void free(void *p)
{
    NEXT(void, free, void *)
    oom.live -= p != NULL ? 1 : 0;
    real(p);
}

#endif

/* Sanitizers have an allocator of their own, and valgrind puts its own in the place of any. */
__attribute__((constructor)) static void skip_all(void)
{
    if (SANITIZED || getenv("HSPMD_VALGRIND") != NULL) {
        (void)puts("1..0 # SKIP the allocator cannot be replaced here");
        exit(0);
    }
    (void)unsetenv("HSPMD_ROUNDS"); /* scripts/check-alloc.py wants the stacks of all rounds */
}

/* ---- the arena (-Wl,--wrap) ---- */

void *__real_hsp_arena_alloc(struct hsp_arena *a, size_t n);
void *__wrap_hsp_arena_alloc(struct hsp_arena *a, size_t n);
void *__real_hsp_arena_array(struct hsp_arena *a, size_t n, size_t elem);
void *__wrap_hsp_arena_array(struct hsp_arena *a, size_t n, size_t elem);
char *__real_hsp_arena_strdup(struct hsp_arena *a, const char *s);
char *__wrap_hsp_arena_strdup(struct hsp_arena *a, const char *s);
char *__real_hsp_arena_strndup(struct hsp_arena *a, const char *s, size_t n);
char *__wrap_hsp_arena_strndup(struct hsp_arena *a, const char *s, size_t n);
void *__real_hsp_arena_memdup(struct hsp_arena *a, const void *p, size_t n);
void *__wrap_hsp_arena_memdup(struct hsp_arena *a, const void *p, size_t n);
char *__wrap_hsp_arena_printf(struct hsp_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void *__wrap_hsp_arena_alloc(struct hsp_arena *a, size_t n)
{
    return refuse() ? NULL : __real_hsp_arena_alloc(a, n);
}

void *__wrap_hsp_arena_array(struct hsp_arena *a, size_t n, size_t elem)
{
    return refuse() ? NULL : __real_hsp_arena_array(a, n, elem);
}

char *__wrap_hsp_arena_strdup(struct hsp_arena *a, const char *s)
{
    return refuse() ? NULL : __real_hsp_arena_strdup(a, s);
}

char *__wrap_hsp_arena_strndup(struct hsp_arena *a, const char *s, size_t n)
{
    return refuse() ? NULL : __real_hsp_arena_strndup(a, s, n);
}

void *__wrap_hsp_arena_memdup(struct hsp_arena *a, const void *p, size_t n)
{
    return refuse() ? NULL : __real_hsp_arena_memdup(a, p, n);
}

char *__wrap_hsp_arena_printf(struct hsp_arena *a, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < sizeof text);
    return refuse() ? NULL : __real_hsp_arena_strdup(a, text);
}

/* ---- loops ---- */

void hsp_oom_arm(uint64_t nth, bool on)
{
    ask_for_evidence();
    (void)pthread_mutex_lock(&oom.lock);
    oom.nth = nth;
    oom.on = on;
    oom.hit = false;
    oom.n = 0;
    oom.armed = true;
    (void)pthread_mutex_unlock(&oom.lock);
}

bool hsp_oom_disarm(void)
{
    (void)pthread_mutex_lock(&oom.lock);
    oom.armed = false;
    bool hit = oom.hit;
    (void)pthread_mutex_unlock(&oom.lock);
    return hit;
}

uint64_t hsp_oom_count(void)
{
    return oom.n;
}

int64_t hsp_oom_live(void)
{
    ask_for_evidence();
    return oom.live;
}

struct outcome {
    enum hsp_status st;
    struct hsp_err err;
    uint64_t hash; /* of the result */
    uint64_t n;    /* allocations */
    int64_t live;
    bool hit;
};

static struct outcome run_once(hsp_oom_body body, void *ctx, uint64_t nth, bool on)
{
    struct outcome o = {.err.code = HSP_OK};
    struct hsp_buf out;
    hsp_buf_init(&out, (size_t)64 << 20);
    int64_t before = hsp_oom_live();
    hsp_oom_arm(nth, on);
    o.st = body(ctx, &out, &o.err);
    if (o.st == HSP_OK && out.failed) {
        o.st = hsp_err_set(&o.err, HSP_ENOMEM, 0, "the test's own buffer");
    }
    o.hash = hsp_hash64(out.data, out.len, 1);
    hsp_buf_fini(&out);
    o.hit = hsp_oom_disarm();
    o.n = hsp_oom_count();
    o.live = hsp_oom_live() - before;
    return o;
}

static void judge(const char *name, const struct outcome *o, const struct outcome *want, uint64_t n,
                  bool on, bool mute)
{
    const char *how = on ? "and all behind it " : "";
    if (o->live != want->live) {
        fail_msg("%s: allocation %ju %sfails: %jd blocks are left over", name, (uintmax_t)n, how,
                 (intmax_t)(o->live - want->live));
    }
    if (o->st == HSP_OK) {
        if (o->hash != want->hash) {
            fail_msg("%s: allocation %ju %sfails: success with another result", name, (uintmax_t)n,
                     how);
        }
    } else if (o->st != HSP_ENOMEM) {
        fail_msg("%s: allocation %ju %sfails: %s: %s", name, (uintmax_t)n, how,
                 hsp_test_status_name(o->st), o->err.msg);
    } else if (!mute && (o->err.code != HSP_ENOMEM || o->err.msg[0] == '\0')) {
        fail_msg("%s: allocation %ju %sfails: the record says %s \"%s\"", name, (uintmax_t)n, how,
                 hsp_test_status_name(o->err.code), o->err.msg);
    }
}

struct task {
    const char *name;
    hsp_oom_body body;
    void *ctx;
    bool mute, in_child;
    struct outcome want;
    uint64_t n_runs;
};

static const int deadly[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};

static struct outcome run_in_child(const char *name, hsp_oom_body body, void *ctx, uint64_t nth,
                                   bool on)
{
    static struct outcome *shared;
    if (shared == NULL) {
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(shared != MAP_FAILED);
    }
    (void)hsp_oom_live();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; i < HSP_ARRAY_LEN(deadly); i++) {
            (void)signal(deadly[i], SIG_DFL); /* cmocka would go on with the next test */
        }
        *shared = run_once(body, ctx, nth, on);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        fail_msg("%s: allocation %ju %sfails: the process ends with %s %d", name, (uintmax_t)nth,
                 on ? "and all behind it " : "", WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return *shared;
}

static struct outcome run(const struct task *t, uint64_t nth, bool on)
{
    return t->in_child ? run_in_child(t->name, t->body, t->ctx, nth, on)
                       : run_once(t->body, t->ctx, nth, on);
}

static void try_one(struct task *t, uint64_t n, bool on)
{
    struct outcome o = run(t, n, on);
    if (o.hit) { /* else this run was shorter: some memory is kept between runs */
        judge(t->name, &o, &t->want, n, on, t->mute);
    }
    if (++t->n_runs % 32 == 1) {
        o = run(t, 0, false);
        judge(t->name, &o, &t->want, 0, false, t->mute);
        assert_int_equal(o.st, HSP_OK);
    }
}

/* Of more allocations than are wanted: by the ways that lead to them, else at random. */
static void try_some(struct task *t, uint64_t most)
{
    static uint64_t draw;
    if (places == NULL) {
        for (uint64_t i = 0; i < most; i++) {
            uint64_t r = hsp_test_rand(t->name, draw++);
            try_one(t, 1 + (r >> 1) % t->want.n, r & 1);
        }
        return;
    }
    for (uint32_t i = 0; i < places->n_new; i++) {
        try_one(t, places->fresh[i], hsp_test_rand(t->name, draw++) & 1);
    }
}

static void loop(struct task *t, uint32_t most)
{
    ask_for_evidence();
    if (places != NULL) {
        places->n_new = 0;
        oom.marking = true;
    }
    t->want = run(t, 0, false);
    oom.marking = false;
    if (t->want.st != HSP_OK || (t->want.live != 0 && !t->in_child)) {
        fail_msg("%s: undisturbed: %s: %s, %jd blocks are left over", t->name,
                 hsp_test_status_name(t->want.st), t->want.err.msg, (intmax_t)t->want.live);
    }
    uint64_t rounds = hsp_test_rounds(most);
    if (t->want.n > rounds) {
        try_some(t, rounds);
        return;
    }
    for (uint64_t n = 1; n <= t->want.n; n++) {
        try_one(t, n, false);
        try_one(t, n, true);
    }
}

void hsp_oom_loop(const char *name, hsp_oom_body body, void *ctx, uint32_t most)
{
    struct task t = {.name = name, .body = body, .ctx = ctx};
    loop(&t, most);
    print_message("# %s: %ju allocations, %ju runs\n", name, (uintmax_t)t.want.n,
                  (uintmax_t)t.n_runs);
}

void hsp_oom_loop_mute(const char *name, hsp_oom_body body, void *ctx, uint32_t most)
{
    struct task t = {.name = name, .body = body, .ctx = ctx, .mute = true};
    loop(&t, most);
}

void hsp_oom_fork(const char *name, hsp_oom_body body, void *ctx, uint32_t most)
{
    struct task t = {.name = name, .body = body, .ctx = ctx, .in_child = true};
    loop(&t, most);
}

bool hsp_oom_again(struct hsp_oom_try *t)
{
    if (!t->done) {
        hsp_oom_arm(++t->n, false);
    }
    return !t->done;
}

void hsp_oom_end(struct hsp_oom_try *t)
{
    t->failed = hsp_oom_disarm();
    t->done = !t->failed;
    assert_status(t->st, t->failed ? HSP_ENOMEM : HSP_OK);
}

void hsp_oom_empty(struct hsp_buf *b)
{
    hsp_buf_init(b, 1 << 20);
    hsp_oom_arm(1, false);
}

void hsp_oom_nothing(struct hsp_buf *b)
{
    assert_true(hsp_oom_disarm());
    assert_int_equal(b->len, 0);
    assert_status(hsp_buf_status(b), HSP_ENOMEM);
    hsp_buf_fini(b);
}
