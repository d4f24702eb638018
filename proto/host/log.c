#include "proto/host/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

/* Time, level, module, text: a cut line and its prefix. */
#define STAMPED (HSP_LOG_LINE + 96)
/* Of a dying process, for a thread that writes a line. */
#define LAST_WAIT_S 1

struct hsp_logger {
    pthread_mutex_t lock;
    int fd;
    bool journal;
    enum hsp_log_level level;
    char **line;  /* HSP_LOG_RING, owned; NULL before the first round */
    size_t n_all; /* lines ever put into the ring; the next goes to n_all mod HSP_LOG_RING */
};

static struct hsp_logger *of_program; /* whose last lines a failing assertion shows; NULL: none */

static const struct {
    const char *name;
    int priority; /* of syslog(3) */
} levels[] = {
    [HSP_LOG_ERROR] = {"error", 3},   [HSP_LOG_WARN] = {"warn", 4},
    [HSP_LOG_NOTICE] = {"notice", 5}, [HSP_LOG_INFO] = {"info", 6},
    [HSP_LOG_DEBUG] = {"debug", 7},   [HSP_LOG_TRACE] = {"trace", 7},
};

/* systemd says in JOURNAL_STREAM which device and inode its journal socket is. */
static bool is_journal(int fd)
{
    const char *s = getenv("JOURNAL_STREAM");
    struct stat st;
    char want[64];
    if (s == NULL || fstat(fd, &st) != 0) {
        return false;
    }
    (void)snprintf(want, sizeof want, "%llu:%llu", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    return strcmp(s, want) == 0;
}

struct hsp_logger *hsp_log_new(int fd, enum hsp_log_level level)
{
    struct hsp_logger *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    l->line = calloc(HSP_LOG_RING, sizeof *l->line);
    if (l->line == NULL) {
        free(l);
        return NULL;
    }
    pthread_mutex_init(&l->lock, NULL);
    l->fd = fd;
    l->journal = is_journal(fd);
    l->level = level;
    return l;
}

struct hsp_logger *hsp_log_free(struct hsp_logger *l)
{
    if (l != NULL) {
        if (l == of_program) {
            hsp_log_on_assert(NULL);
        }
        for (size_t i = 0; i < HSP_LOG_RING; i++) {
            free(l->line[i]);
        }
        free(l->line);
        pthread_mutex_destroy(&l->lock);
        free(l);
    }
    return NULL;
}

void hsp_log_set_level(struct hsp_logger *l, enum hsp_log_level level)
{
    pthread_mutex_lock(&l->lock);
    l->level = level;
    pthread_mutex_unlock(&l->lock);
}

const char *hsp_log_level_name(enum hsp_log_level level)
{
    return (size_t)level < HSP_ARRAY_LEN(levels) ? levels[level].name : "unknown";
}

bool hsp_log_parse_level(const char *s, enum hsp_log_level *ret)
{
    for (size_t i = 0; i < HSP_ARRAY_LEN(levels); i++) {
        if (strcmp(s, levels[i].name) == 0) {
            *ret = (enum hsp_log_level)i;
            return true;
        }
    }
    return false;
}

static void write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k <= 0) {
            return; /* nowhere to report it */
        }
        p += k;
        n -= (size_t)k;
    }
}

static void log_line(struct hsp_logger *l, enum hsp_log_level level, const char *module,
                     const char *fmt, va_list ap) __attribute__((format(printf, 4, 0)));

static void log_line(struct hsp_logger *l, enum hsp_log_level level, const char *module,
                     const char *fmt, va_list ap)
{
    char raw[HSP_LOG_LINE], text[HSP_LOG_LINE], line[STAMPED], stamp[40];
    if (l == NULL || (size_t)level >= HSP_ARRAY_LEN(levels)) {
        return;
    }
    (void)vsnprintf(raw, sizeof raw, fmt, ap);
    (void)hsp_str_show(text, sizeof text, raw, strlen(raw), false); /* cut on purpose */
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(stamp + n, sizeof stamp - n, ".%03ldZ", now.tv_nsec / 1000000);
    (void)snprintf(line, sizeof line, "%s %s %s: %s\n", stamp, levels[level].name, module, text);
    pthread_mutex_lock(&l->lock);
    if (level <= l->level && l->journal) {
        char pri[STAMPED];
        int k = snprintf(pri, sizeof pri, "<%d>%s: %s\n", levels[level].priority, module, text);
        write_all(l->fd, pri, k > 0 ? strlen(pri) : 0);
    } else if (level <= l->level) {
        write_all(l->fd, line, strlen(line));
    }
    if (level <= HSP_LOG_DEBUG) {
        char **slot = &l->line[l->n_all % HSP_LOG_RING];
        free(*slot);
        *slot = strdup(line); /* NULL without memory: the line is missing from the ring */
        l->n_all++;
    }
    pthread_mutex_unlock(&l->lock);
}

void hsp_log(struct hsp_logger *l, enum hsp_log_level level, const char *module, const char *fmt,
             ...)
{
    va_list ap;
    va_start(ap, fmt);
    log_line(l, level, module, fmt, ap);
    va_end(ap);
}

void hsp_log_dump(struct hsp_logger *l, size_t n, int fd)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end); /* cannot fail with this clock */
    end.tv_sec += LAST_WAIT_S;
    if (pthread_mutex_timedlock(&l->lock, &end) != 0) {
        return;
    }
    size_t have = l->n_all < HSP_LOG_RING ? l->n_all : HSP_LOG_RING;
    n = n < have ? n : have;
    for (size_t i = l->n_all - n; i < l->n_all; i++) {
        const char *s = l->line[i % HSP_LOG_RING];
        if (s != NULL) {
            write_all(fd, s, strlen(s));
        }
    }
    pthread_mutex_unlock(&l->lock);
}

/* ---- the last words ---- */

static void dump_last(const char *expr, const char *file, int line)
{
    (void)expr;
    (void)file;
    (void)line;
    static const char head[] = "the last lines of the log:\n";
    write_all(of_program->fd, head, sizeof head - 1);
    hsp_log_dump(of_program, HSP_LOG_LAST, of_program->fd);
}

void hsp_log_on_assert(struct hsp_logger *l)
{
    of_program = l;
    hsp_assert_set_hook(l != NULL ? dump_last : NULL);
}
