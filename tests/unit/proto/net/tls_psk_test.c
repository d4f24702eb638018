#include "proto/net/tls_psk.h"

#include <stdio.h>
#include <sys/stat.h>

#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"

static struct hsp_net_keys both_keys(void)
{
    struct hsp_net_keys k = {.have_worker = true, .have_admin = true};
    memset(k.worker, 0x21, sizeof k.worker);
    memset(k.admin, 0x42, sizeof k.admin);
    return k;
}

/* Carries bytes both ways until nothing moves. Results of the last handshake steps. */
static void shake(struct hsp_tls *a, struct hsp_tls *b, enum hsp_status *ret_a,
                  enum hsp_status *ret_b)
{
    uint8_t buf[4096];
    struct hsp_err err;
    *ret_a = *ret_b = HSP_AGAIN;
    for (int i = 0; i < 10; i++) {
        if (*ret_a == HSP_AGAIN) {
            *ret_a = hsp_tls_handshake(a, &err);
        }
        for (size_t n; (n = hsp_tls_output(a, buf, sizeof buf)) > 0;) {
            assert_ok(hsp_tls_input(b, buf, n, &err), &err);
        }
        if (*ret_b == HSP_AGAIN) {
            *ret_b = hsp_tls_handshake(b, &err);
        }
        for (size_t n; (n = hsp_tls_output(b, buf, sizeof buf)) > 0;) {
            assert_ok(hsp_tls_input(a, buf, n, &err), &err);
        }
    }
}

static void pair(const struct hsp_net_keys *kc, const struct hsp_net_keys *ks,
                 enum hsp_net_role role, bool good)
{
    struct hsp_tls_ctx *cc, *cs;
    struct hsp_tls *c, *s;
    struct hsp_err err;
    enum hsp_status sc, ss;
    uint8_t buf[65536];
    size_t n = 0;
    assert_ok(hsp_tls_ctx_new(kc, &cc, &err), &err);
    assert_ok(hsp_tls_ctx_new(ks, &cs, &err), &err);
    assert_ok(hsp_tls_new(cc, false, role, &c, &err), &err);
    assert_ok(hsp_tls_new(cs, true, HSP_ROLE_NONE, &s, &err), &err);
    assert_int_equal(hsp_tls_role(s), HSP_ROLE_NONE);
    assert_false(hsp_tls_proved(s));
    shake(c, s, &sc, &ss);
    assert_int_equal(ss, good ? HSP_OK : HSP_EAUTH);
    assert_int_equal(sc, good ? HSP_OK : HSP_EAUTH);
    assert_int_equal(hsp_tls_role(s), good ? role : HSP_ROLE_NONE);
    assert_int_equal(hsp_tls_proved(s), good);
    if (good) {
        assert_status(hsp_tls_read(s, buf, sizeof buf, &n, &err), HSP_AGAIN);
        assert_ok(hsp_tls_write(c, "hello", 5, &err), &err);
        size_t k = hsp_tls_output(c, buf, sizeof buf);
        assert_true(k > 5 && memmem(buf, k, "hello", 5) == NULL);
        assert_ok(hsp_tls_input(s, buf, k, &err), &err);
        assert_ok(hsp_tls_read(s, buf, sizeof buf, &n, &err), &err);
        assert_int_equal(n, 5);
        assert_memory_equal(buf, "hello", 5);
        hsp_tls_end(c);
        k = hsp_tls_output(c, buf, sizeof buf);
        assert_ok(hsp_tls_input(s, buf, k, &err), &err);
        assert_status(hsp_tls_read(s, buf, sizeof buf, &n, &err), HSP_ECLOSED);
    }
    hsp_tls_free(c);
    hsp_tls_free(s);
    hsp_tls_ctx_free(cc);
    hsp_tls_ctx_free(cs);
}

static void test_keys_decide(void **state)
{
    (void)state;
    struct hsp_net_keys k = both_keys(), other = both_keys(), worker_only = both_keys();
    other.worker[31] ^= 1;
    worker_only.have_admin = false;
    pair(&k, &k, HSP_ROLE_WORKER, true);
    pair(&k, &k, HSP_ROLE_ADMIN, true);
    pair(&other, &k, HSP_ROLE_WORKER, false); /* one bit of the key */
    pair(&other, &k, HSP_ROLE_ADMIN, true);
    pair(&k, &worker_only, HSP_ROLE_ADMIN, false); /* the server does not know it */
    /* the worker's key does not make an admin */
    struct hsp_net_keys thief = both_keys();
    memcpy(thief.admin, thief.worker, sizeof thief.admin);
    pair(&thief, &k, HSP_ROLE_ADMIN, false);
    struct hsp_tls_ctx *c;
    struct hsp_tls *t = NULL;
    struct hsp_err err;
    assert_ok(hsp_tls_ctx_new(&worker_only, &c, &err), &err);
    assert_status(hsp_tls_new(c, false, HSP_ROLE_ADMIN, &t, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "no admin key");
    hsp_tls_ctx_free(c);
}

/* The client's first message proves its key, when it is whole. */
static void test_first_message_proves(void **state)
{
    (void)state;
    struct hsp_net_keys k = both_keys();
    struct hsp_tls_ctx *x;
    struct hsp_tls *c, *s;
    struct hsp_err err;
    uint8_t buf[4096];
    assert_ok(hsp_tls_ctx_new(&k, &x, &err), &err);
    assert_ok(hsp_tls_new(x, false, HSP_ROLE_WORKER, &c, &err), &err);
    assert_ok(hsp_tls_new(x, true, HSP_ROLE_NONE, &s, &err), &err);
    assert_status(hsp_tls_handshake(c, &err), HSP_AGAIN);
    size_t n = hsp_tls_output(c, buf, sizeof buf);
    assert_true(n > 100 && n < sizeof buf);
    assert_ok(hsp_tls_input(s, buf, n - 1, &err), &err);
    assert_status(hsp_tls_handshake(s, &err), HSP_AGAIN);
    assert_false(hsp_tls_proved(s));
    assert_ok(hsp_tls_input(s, buf + n - 1, 1, &err), &err);
    assert_status(hsp_tls_handshake(s, &err), HSP_AGAIN);
    assert_true(hsp_tls_proved(s));
    assert_int_equal(hsp_tls_role(s), HSP_ROLE_NONE); /* a possible copy of a recorded one */
    hsp_tls_free(c);
    hsp_tls_free(s);
    hsp_tls_ctx_free(x);
}

/* Changed cipher text is never read as plain text. */
static void test_tampering(void **state)
{
    (void)state;
    struct hsp_net_keys k = both_keys();
    struct hsp_tls_ctx *x;
    struct hsp_tls *c, *s;
    struct hsp_err err;
    enum hsp_status sc, ss;
    uint8_t buf[1024];
    size_t n;
    assert_ok(hsp_tls_ctx_new(&k, &x, &err), &err);
    assert_ok(hsp_tls_new(x, false, HSP_ROLE_WORKER, &c, &err), &err);
    assert_ok(hsp_tls_new(x, true, HSP_ROLE_NONE, &s, &err), &err);
    shake(c, s, &sc, &ss);
    assert_ok(hsp_tls_write(c, "0123456789", 10, &err), &err);
    size_t len = hsp_tls_output(c, buf, sizeof buf);
    buf[len - 1] ^= 1;
    assert_ok(hsp_tls_input(s, buf, len, &err), &err);
    assert_status(hsp_tls_read(s, buf, sizeof buf, &n, &err), HSP_EPROTO);
    hsp_tls_free(c);
    hsp_tls_free(s);
    hsp_tls_ctx_free(x);
}

static bool own_pair(const char *id_c, const char *id_s, uint8_t key_s, uint64_t rekey)
{
    static const struct hsp_net_keys none;
    struct hsp_tls_ctx *x;
    struct hsp_tls *c, *s;
    struct hsp_err err;
    enum hsp_status sc, ss;
    uint8_t key[HSP_NET_KEY] = {7}, other[HSP_NET_KEY] = {key_s}, buf[9000], got[9000];
    size_t n = 0;
    assert_ok(hsp_tls_ctx_new(&none, &x, &err), &err);
    assert_ok(hsp_tls_new_psk(x, false, id_c, key, &c, &err), &err);
    assert_ok(hsp_tls_new_psk(x, true, id_s, other, &s, &err), &err);
    shake(c, s, &sc, &ss);
    assert_int_equal(sc, ss);
    for (uint8_t i = 0; sc == HSP_OK && i < 100; i++) {
        if (rekey != 0) {
            hsp_tls_rekey_after(c, rekey);
        }
        memset(buf, i, 100);
        assert_ok(hsp_tls_write(c, buf, 100, &err), &err);
        size_t k = hsp_tls_output(c, buf, sizeof buf);
        /* a record with the new key in it goes before */
        assert_int_equal(k, 100 + 22 + (rekey != 0 && i > 0 ? 5 + 22 : 0));
        assert_ok(hsp_tls_input(s, buf, k, &err), &err);
        assert_ok(hsp_tls_read(s, got, sizeof got, &n, &err), &err);
        assert_int_equal(n, 100);
        assert_int_equal(got[99], i);
    }
    assert_int_equal(hsp_tls_role(s), HSP_ROLE_NONE);
    hsp_tls_free(c);
    hsp_tls_free(s);
    hsp_tls_ctx_free(x);
    return sc == HSP_OK;
}

/* Sessions with keys of their own: the name and the key must be the same; keys change under way. */
static void test_own_keys(void **state)
{
    (void)state;
    struct hsp_tls_ctx *x;
    struct hsp_tls *t = NULL;
    struct hsp_err err;
    static const struct hsp_net_keys none;
    char longer[HSP_TLS_IDENTITY + 1];
    assert_true(own_pair("mesh/1", "mesh/1", 7, 0));
    assert_true(own_pair("mesh/1", "mesh/1", 7, 100));
    assert_false(own_pair("mesh/1", "mesh/2", 7, 0));
    assert_false(own_pair("mesh/1", "mesh/1", 8, 0));
    memset(longer, 'x', sizeof longer);
    longer[HSP_TLS_IDENTITY] = 0;
    assert_ok(hsp_tls_ctx_new(&none, &x, &err), &err);
    assert_status(hsp_tls_new_psk(x, true, longer, (const uint8_t *)longer, &t, &err), HSP_EINVAL);
    assert_status(hsp_tls_new_psk(x, true, "", (const uint8_t *)longer, &t, &err), HSP_EINVAL);
    hsp_tls_ctx_free(x);
}

static void test_key_files(void **state)
{
    (void)state;
    static const char hex[] = " 000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\n";
    char *dir = hsp_test_tmpdir(), path[512], none[512];
    uint8_t key[HSP_NET_KEY];
    struct hsp_net_keys k;
    struct hsp_err err;
    (void)snprintf(path, sizeof path, "%s/k", dir);
    (void)snprintf(none, sizeof none, "%s/none", dir);
    assert_ok(hsp_file_write(path, hex, sizeof hex - 1, 0640, &err), &err);
    assert_ok(hsp_net_key_load(path, key, &err), &err);
    for (uint8_t i = 0; i < HSP_NET_KEY; i++) {
        assert_int_equal(key[i], i);
    }
    assert_ok(hsp_net_keys_load(path, none, &k, &err), &err);
    assert_true(k.have_worker && !k.have_admin);
    assert_ok(hsp_net_keys_load("", NULL, &k, &err), &err);
    assert_false(k.have_worker);
    assert_status(hsp_net_key_load(none, key, &err), HSP_ENOENT);
    assert_int_equal(chmod(path, 0644), 0);
    assert_status(hsp_net_keys_load(path, NULL, &k, &err), HSP_EPERM);
    assert_non_null(strstr(err.msg, "open to everybody (mode 644): chmod o= /"));
    assert_ok(hsp_file_write(path, hex, 60, 0600, &err), &err);
    assert_status(hsp_net_key_load(path, key, &err), HSP_EPARSE);
    assert_non_null(strstr(err.msg, "or make one with openssl rand -hex 32"));
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(tls_psk_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_decide), cmocka_unit_test(test_first_message_proves),
        cmocka_unit_test(test_tampering),   cmocka_unit_test(test_own_keys),
        cmocka_unit_test(test_key_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
