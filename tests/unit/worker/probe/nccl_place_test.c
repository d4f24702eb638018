/* Tests NCCL's rules for names, trusted networks, traffic that stays on this host; and the kernel's
 * answers. */
#include "worker/probe/nccl_place.h"
#include "worker/probe/nccl_trust.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/testlib.h"

/* ---- a host as a text ---- */

static const char *vars[16]; /* name, value, ...; of the tests' environment */

static const char *get(const char *name)
{
    for (int i = 0; vars[i] != NULL; i += 2) {
        if (strcmp(vars[i], name) == 0) {
            return vars[i + 1];
        }
    }
    return NULL;
}

#define ENV(...)                                         \
    do {                                                 \
        const char *const given[] = {__VA_ARGS__, NULL}; \
        memset(vars, 0, sizeof vars);                    \
        memcpy(vars, given, sizeof given);               \
    } while (0)

static void address(struct hsp_host_net *h, const char *card, const char *ip)
{
    struct hsp_host_address *a = &h->address[h->n_addresses++];
    (void)snprintf(a->card, sizeof a->card, "%s", card);
    a->ip.v6 = strchr(ip, ':') != NULL;
    assert_int_equal(inet_pton(a->ip.v6 ? AF_INET6 : AF_INET, ip, a->ip.b), 1);
}

static void rdma(struct hsp_host_net *h, const char *name, const char *card, const char *upper)
{
    struct hsp_host_rdma *r = &h->rdma[h->n_rdma++];
    *r = (struct hsp_host_rdma){0};
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    for (int i = 0; i < 2; i++) {
        if ((i == 0 ? card : upper) != NULL) {
            (void)snprintf(r->card[r->n_cards++], sizeof r->card[0], "%s", i == 0 ? card : upper);
        }
    }
}

/* lo, eth0 in 10/8 and fd00::/8, eth1 elsewhere; mlx5_0 is eth0's, mlx5_1 eth1's. */
static void host(struct hsp_host_net *h)
{
    memset(h, 0, sizeof *h);
    memset(vars, 0, sizeof vars);
    address(h, "lo", "127.0.0.1");
    address(h, "eth0", "10.0.0.7");
    address(h, "eth0", "fd00::7");
    address(h, "eth0", "fe80::7");
    address(h, "eth1", "192.0.2.7");
    rdma(h, "mlx5_0", "eth0", NULL);
    rdma(h, "mlx5_1", "eth1", NULL);
}

static uint8_t trusted; /* of the last why_not */

static const char *why_not(const struct hsp_host_net *h, const char *nets)
{
    static char why[HSP_NCCL_WHY];
    struct hsp_ipnets n;
    struct hsp_err err = {0};
    assert_ok(hsp_ipnets_parse(nets, &n, &err), &err);
    trusted = hsp_nccl_trusts(h, get, &n, why);
    assert_int_equal(trusted != 0, why[0] == '\0');
    return why;
}

#define refused(h, nets, part)                         \
    do {                                               \
        const char *w = why_not((h), (nets));          \
        if (strstr(w, (part)) == NULL) {               \
            fail_msg("\"%s\" has no \"%s\"", w, part); \
        }                                              \
    } while (0)

/* ---- tests ---- */

static void names_by_the_rules_of_nccl(void **state)
{
    static const struct {
        const char *list, *name;
        bool ports, takes;
    } c[] = {
        {"eth", "eth0", false, true},
        {"eth0", "eth", false, false},
        {"=eth0", "eth0", false, true},
        {"=eth0", "eth01", false, false},
        {"=eth", "eth0", false, false},
        {"eth0,ib", "ib3", false, true},
        {"=eth0,=ib3", "ib3", false, false},
        {"=eth0,ib3", "ib3", false, true},
        {"^docker,lo", "lo", false, false},
        {"^docker,lo", "eth0", false, true},
        {"^=eth0", "eth01", false, true},
        {"^=eth0", "eth0", false, false},
        {"", "eth0", false, true},
        {"=", "eth0", false, true},
        {"^", "eth0", false, false},
        {",,eth1", "eth1", false, true},
        {"eth0:5", "eth0", false, true},
        {"^eth0:5", "eth0", false, false},
        {"mlx5_0:1", "mlx5_0", true, true},
        {"=mlx5_0:1", "mlx5_0", true, true},
        {"=mlx5_0:1", "mlx5_00", true, false},
        {"^mlx5_0:1", "mlx5_0", true, true},
        {"^mlx5_0", "mlx5_0", true, false},
        {"mlx5_1", "mlx5_10", true, true},
        {"=mlx5_1", "mlx5_10", true, false},
        /* the seventeenth is not read, so it is not excluded */
        {"^a,b,c,d,f,g,h,i,j,k,l,m,n,o,p,q,eth0", "eth0", false, true},
        {"^a,b,c,d,f,g,h,i,j,k,l,m,n,o,p,eth0", "eth0", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        if (hsp_nccl_names(c[i].list, c[i].name, c[i].ports) != c[i].takes) {
            fail_msg("%s and %s", c[i].list, c[i].name);
        }
    }
}

static void every_interface_must_be_trusted(void **state)
{
    struct hsp_host_net h;
    (void)state;
    host(&h);
    refused(&h, "", "hspmdd.yaml names no trusted_network");
    ENV("NCCL_IB_DISABLE", "1");
    refused(&h, "10.0.0.0/8, fd00::/8", "interface eth1 has 192.0.2.7, outside of trusted_network");
    refused(&h, "10.0.0.0/8, fd00::/8, 192.0.2.0/24", "have no trusted_network in common");
    ENV("NCCL_IB_DISABLE", "1", "NCCL_SOCKET_IFNAME", "=eth0");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    refused(&h, "10.0.0.0/8",
            "interface eth0 has fd00::7, outside of trusted_network; NCCL keeps off");
    refused(&h, "fd00::/8", "interface eth0 has 10.0.0.7");
    ENV("NCCL_IB_DISABLE", "1", "NCCL_SOCKET_IFNAME", "^eth1");
    refused(&h, "10.0.0.0/8, fd00::/8", "interface lo has 127.0.0.1"); /* not excluded */
    ENV("NCCL_IB_DISABLE", "1", "NCCL_SOCKET_IFNAME", "^eth1,lo");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    ENV("NCCL_IB_DISABLE", "1", "NCCL_SOCKET_IFNAME", "=eth9");
    refused(&h, "10.0.0.0/8", "no interface that NCCL may use (NCCL_SOCKET_IFNAME =eth9) has");
    ENV("NCCL_IB_DISABLE", "1", "NCCL_SOCKET_IFNAME", "e"); /* NCCL passes over one letter */
    refused(&h, "10.0.0.0/8, fd00::/8", "interface eth1 has 192.0.2.7");
    address(&h, "eth2", "fe80::9"); /* NCCL would take it */
    ENV("NCCL_IB_DISABLE", "1", "NCCL_SOCKET_IFNAME", "=eth0,eth2");
    refused(&h, "10.0.0.0/8, fd00::/8", "interface eth2 has no address in trusted_network");
}

/* Without a list all interfaces but the loopback, whichever of them this NCCL would take. */
static void without_a_list_all_are_looked_at(void **state)
{
    struct hsp_host_net h = {0};
    (void)state;
    memset(vars, 0, sizeof vars);
    address(&h, "lo", "127.0.0.1");
    refused(&h, "127.0.0.0/8", "no interface that NCCL may use (NCCL_SOCKET_IFNAME is not set)");
    address(&h, "eth0", "10.0.0.7");
    assert_string_equal(why_not(&h, "10.0.0.0/8"), "");
    address(&h, "ib0", "10.1.0.7");
    assert_string_equal(why_not(&h, "10.0.0.0/8"), "");
    refused(&h, "10.0.0.0/16", "interface ib0 has 10.1.0.7");
    refused(&h, "10.1.0.0/16", "interface eth0 has 10.0.0.7");
    address(&h, "lo", "10.0.0.9"); /* one that is announced by routers */
    assert_string_equal(why_not(&h, "10.0.0.0/8"), "");
    address(&h, "docker0", "172.17.0.1");
    refused(&h, "10.0.0.0/8", "interface docker0 has 172.17.0.1");
    refused(&h, "10.0.0.0/8", "NCCL_SOCKET_IFNAME in the agent's environment");
    h.n_addresses--;
    address(&h, "lo", "192.0.2.9");
    refused(&h, "10.0.0.0/8", "interface lo has 192.0.2.9");
}

/* Bit i: entry i of trusted_network, if all interfaces and RDMA devices have addresses there. */
static void networks_that_all_interfaces_have(void **state)
{
    static const char nets[] = "10.1.0.0/16, 10.2.0.0/16, 10.0.0.0/8";
    struct hsp_host_net h = {0};
    (void)state;
    memset(vars, 0, sizeof vars);
    address(&h, "eth0", "10.1.0.7");
    assert_string_equal(why_not(&h, nets), "");
    assert_int_equal(trusted, 5);
    address(&h, "eth1", "10.2.0.7");
    assert_string_equal(why_not(&h, nets), "");
    assert_int_equal(trusted, 4);
    refused(&h, "10.1.0.0/16, 10.2.0.0/16", "have no trusted_network in common; NCCL_SOCKET_IF");
    address(&h, "eth1", "10.1.0.8"); /* on both */
    assert_string_equal(why_not(&h, nets), "");
    assert_int_equal(trusted, 5);
    rdma(&h, "mlx5_0", "eth2", "bond0");
    address(&h, "bond0", "10.2.0.9");
    ENV("NCCL_SOCKET_IFNAME", "=eth0");
    assert_string_equal(why_not(&h, nets), "");
    assert_int_equal(trusted, 4);
    refused(&h, "10.1.0.0/16, 10.2.0.0/16", "in common");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_IB_DISABLE", "1");
    assert_string_equal(why_not(&h, nets), "");
    assert_int_equal(trusted, 5);
}

static void every_rdma_device_must_be_trusted(void **state)
{
    struct hsp_host_net h;
    (void)state;
    host(&h);
    ENV("NCCL_SOCKET_IFNAME", "=eth0");
    refused(&h, "10.0.0.0/8, fd00::/8", "RDMA device mlx5_1 may be used and eth1 has 192.0.2.7");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_IB_HCA", "=mlx5_0");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_IB_HCA", "^mlx5_1:1");
    refused(&h, "10.0.0.0/8, fd00::/8", "RDMA device mlx5_1");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_IB_HCA", "^mlx5_1");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_NET", "socket");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_IB_DISABLE", "0");
    refused(&h, "10.0.0.0/8, fd00::/8", "RDMA device mlx5_1");
    h.n_rdma = 1;
    rdma(&h, "mlx5_bond_0", "eth4", "bond0"); /* the bond's card has no address, the bond has */
    refused(&h, "10.0.0.0/8, fd00::/8",
            "mlx5_bond_0 may be used and bond0 has no address in trusted_network");
    address(&h, "bond0", "10.0.0.8");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    address(&h, "eth4", "192.0.2.8"); /* and one elsewhere */
    refused(&h, "10.0.0.0/8, fd00::/8", "mlx5_bond_0 may be used and eth4 has 192.0.2.8");
    h.address[h.n_addresses - 1].ip.b[0] = 10; /* as an address with a label, likewise */
    assert_string_equal(why_not(&h, "10.0.0.0/8, 192.0.0.0/8, fd00::/8"), "");
    address(&h, "eth4:1", "192.0.2.8");
    refused(&h, "10.0.0.0/8, fd00::/8", "mlx5_bond_0 may be used and eth4 has 192.0.2.8");
    address(&h, "eth44", "192.0.2.9"); /* another interface */
    assert_string_equal(why_not(&h, "10.0.0.0/8, 192.0.2.8/32, fd00::/8"), "");
    rdma(&h, "efa_0", NULL, NULL);
    h.rdma[1] = h.rdma[2];
    h.n_rdma = 2;
    refused(&h, "10.0.0.0/8, fd00::/8", "efa_0 may be used and it has no interface here");
    refused(&h, "10.0.0.0/8, fd00::/8", "environment, or when network: of"); /* mlx5_0's cards */
    h.rdma[0] = h.rdma[1];
    assert_null(strstr(why_not(&h, "10.0.0.0/8, fd00::/8"), "network:"));
    refused(&h, "10.0.0.0/8, fd00::/8", "with NCCL_IB_HCA or NCCL_IB_DISABLE=1 in the agent's");
}

static void what_cannot_be_seen_is_not_trusted(void **state)
{
    struct hsp_host_net h;
    (void)state;
    host(&h);
    h.n_rdma = 0;
    h.plugin = true;
    ENV("NCCL_SOCKET_IFNAME", "=eth0");
    refused(&h, "10.0.0.0/8, fd00::/8", "network plugin");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_NET_PLUGIN", "none");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_NET_PLUGIN", "None");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_NET", "IB");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    h.plugin = false;
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_NET_PLUGIN", "aws");
    refused(&h, "10.0.0.0/8, fd00::/8", "network plugin");
    ENV("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_NET", "AWS Libfabric");
    refused(&h, "10.0.0.0/8, fd00::/8", "network plugin");
    ENV("NCCL_SOCKET_IFNAME", "=eth0");
    assert_string_equal(why_not(&h, "10.0.0.0/8, fd00::/8"), "");
    (void)snprintf(h.unseen, sizeof h.unseen, "more than is seen");
    refused(&h, "10.0.0.0/8, fd00::/8", "more than is seen");
}

/* Settings that are in no variable, or a place to meet that is nobody's interface. */
static void what_is_not_known(void **state)
{
    char why[HSP_NCCL_WHY];
    (void)state;
    ENV("NCCL_ENV_PLUGIN", "none");
    assert_true(hsp_nccl_known(get, why));
    assert_string_equal(why, "");
    ENV("NCCL_ENV_PLUGIN", "None");
    assert_true(hsp_nccl_known(get, why));
    ENV("NCCL_ENV_PLUGIN", "mine");
    assert_false(hsp_nccl_known(get, why));
    assert_non_null(strstr(why, "NCCL_ENV_PLUGIN is mine, so NCCL may have settings"));
    ENV("NCCL_DEBUG", "INFO"); /* then it looks for libnccl-env.so */
    assert_false(hsp_nccl_known(get, why));
    assert_non_null(strstr(why, "NCCL_ENV_PLUGIN is not set"));
    ENV("NCCL_ENV_PLUGIN", "none", "NCCL_COMM_ID", "192.0.2.1:99");
    assert_false(hsp_nccl_known(get, why));
    assert_non_null(strstr(why, "NCCL_COMM_ID is 192.0.2.1:99"));
}

/* Only RDMA devices could carry off messages between ranks of one host. */
static void what_stays_on_this_host(void **state)
{
    struct hsp_host_net h;
    char why[HSP_NCCL_WHY];
    (void)state;
    host(&h);
    assert_false(hsp_nccl_stays(&h, get, why));
    assert_non_null(strstr(why, "NCCL_NET_DISABLE_INTRA is 0"));
    ENV("NCCL_NET_DISABLE_INTRA", "1");
    assert_true(hsp_nccl_stays(&h, get, why));
    ENV("NCCL_NET_DISABLE_INTRA", "1", "NCCL_SHM_DISABLE", "1");
    assert_false(hsp_nccl_stays(&h, get, why));
    assert_non_null(strstr(why, "NCCL_SHM_DISABLE is 1"));
    ENV("NCCL_NET_DISABLE_INTRA", "1", "NCCL_OOB_NET_ENABLE", "1");
    assert_false(hsp_nccl_stays(&h, get, why));
    ENV("NCCL_SHM_DISABLE", "1", "NCCL_IB_DISABLE", "1");
    assert_true(hsp_nccl_stays(&h, get, why));
    h.plugin = true;
    assert_false(hsp_nccl_stays(&h, get, why));
    h.plugin = false;
    h.unseen[0] = 'x';
    assert_false(hsp_nccl_stays(&h, get, why));
}

/* ---- the kernel's folders ---- */

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = hsp_test_tmpdir();
    return setenv("NCCL_ENV_PLUGIN", "none", 1);
}

static int teardown(void **state)
{
    (void)state;
    hsp_test_rmdir(dir);
    free(dir);
    (void)unsetenv("NCCL_SOCKET_IFNAME");
    (void)unsetenv("NCCL_NET_DISABLE_INTRA");
    (void)unsetenv("NCCL_HOSTID");
    (void)unsetenv("NCCL_ENV_PLUGIN");
    return 0;
}

/* A folder and those above it, or with @text a file in them. */
static const char *put(const char *path, const char *text)
{
    static char full[32][512];
    static int next;
    char *p = full[next++ % 32];
    (void)snprintf(p, sizeof full[0], "%s/%s", dir, path);
    for (char *s = p + strlen(dir) + 1; *s != '\0'; s++) {
        if (*s == '/') {
            *s = '\0';
            (void)mkdir(p, 0700);
            *s = '/';
        }
    }
    if (text == NULL) {
        (void)mkdir(p, 0700);
        return p;
    }
    FILE *f = fopen(p, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return p;
}

static struct hsp_nccl_place found(const struct hsp_nccl_look *l, const char *nets, char *ret_why)
{
    struct hsp_nccl_place p;
    struct hsp_ipnets n;
    struct hsp_err err = {0};
    assert_ok(hsp_ipnets_parse(nets, &n, &err), &err);
    hsp_nccl_place_find(l, &n, &p, ret_why);
    assert_true(p.tls);
    return p;
}

/* The loopback interface stands for a card: every host has it. */
static void devices_as_the_kernel_shows_them(void **state)
{
    char why[HSP_NCCL_WHY];
    struct hsp_nccl_look l = {.infiniband = put("ib", NULL), .net = put("net", NULL)};
    (void)state;
    assert_int_equal(setenv("NCCL_SOCKET_IFNAME", "=lo", 1), 0);
    assert_int_equal(setenv("NCCL_NET_DISABLE_INTRA", "1", 1), 0);
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 1);
    assert_string_equal(why, "");
    assert_int_equal(found(&l, "10.0.0.0/8", why).trusted, 0);
    assert_non_null(strstr(why, "interface lo has 127.0.0.1, outside of trusted_network"));
    (void)put("ib/mlx5_0/device/net/nocard0", NULL);
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 0);
    assert_non_null(
        strstr(why, "mlx5_0 may be used and nocard0 has no address in trusted_network"));
    (void)put("net/nocard0/upper_bond9", NULL);
    (void)put("net/bond9/upper_lo", NULL); /* a VLAN on a bond */
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 1);
    (void)put("ib/mlx5_1", NULL);
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 0);
    assert_non_null(strstr(why, "mlx5_1 may be used and it has no interface here"));
    for (int i = 0; i < 9; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "ib/mlx5_0/device/net/card%d", i);
        (void)put(path, NULL);
    }
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 0);
    assert_non_null(strstr(why, "too many to look at"));
}

/* Links that the kernel does not show, here because they are too many, are not taken for
 * nothing. */
static void what_cannot_be_read_is_not_trusted(void **state)
{
    char why[HSP_NCCL_WHY], path[512];
    const char *loop = put("loop", NULL), *file = put("file", "x");
    struct hsp_nccl_look l = {.infiniband = "/nonexistent", .net = put("net", NULL)};
    (void)state;
    assert_int_equal(rmdir(loop), 0);
    assert_int_equal(symlink(loop, loop), 0);
    assert_int_equal(setenv("NCCL_SOCKET_IFNAME", "=lo", 1), 0);
    assert_int_equal(setenv("NCCL_NET_DISABLE_INTRA", "1", 1), 0);
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 1);
    l.infiniband = file; /* no folder: there is no RDMA */
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 1);
    l.infiniband = loop;
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 0);
    if (strstr(why, "loop cannot be read: Too many levels of symbolic links") == NULL) {
        fail_msg("%s", why);
    }
    l.infiniband = put("ib", NULL);
    (void)put("ib/mlx5_0/device/net/lo", NULL);
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 1);
    (void)snprintf(path, sizeof path, "%s/ib/mlx5_1/device/net", dir);
    assert_int_equal(rmdir(put("ib/mlx5_1/device/net", NULL)), 0);
    assert_int_equal(symlink(loop, path), 0);
    assert_int_equal(found(&l, "127.0.0.0/8", why).trusted, 0);
    assert_non_null(strstr(why, "mlx5_1/device/net cannot be read"));
}

static void hosts_are_told_apart(void **state)
{
    char why[HSP_NCCL_WHY];
    struct hsp_nccl_look l = {.infiniband = put("ib", NULL), .boot_id = put("a", "one\n")};
    struct hsp_nccl_look other = l, shm = l, none = l, apart = l;
    (void)state;
    other.boot_id = put("b", "two\n");
    shm.shm = dir;
    none.boot_id = put("c", "");
    apart.apart = true;
    uint64_t h = found(&l, "", why).host;
    assert_string_equal(why, "hspmdd.yaml names no trusted_network");
    assert_true(h != 0 && found(&l, "", why).host == h);
    assert_true(found(&other, "", why).host != h && found(&other, "", why).host != 0);
    assert_true(found(&shm, "", why).host != h);
    assert_true(found(&none, "", why).host == 0);
    assert_true(found(&apart, "", why).host == 0);
    assert_string_equal(why, "hspmdd.yaml names no trusted_network; with transport: tcp devices of "
                             "this host count as of other hosts");
    assert_int_equal(setenv("NCCL_HOSTID", "x", 1), 0);
    assert_true(found(&l, "", why).host != h);
    assert_int_equal(unsetenv("NCCL_HOSTID"), 0);
    (void)put("ib/mlx5_0/device/net/nocard0", NULL);
    assert_true(found(&l, "", why).host == 0);
    assert_non_null(strstr(why, "NCCL_NET_DISABLE_INTRA is 0 in the agent's environment"));
    assert_int_equal(setenv("NCCL_NET_DISABLE_INTRA", "1", 1), 0);
    assert_true(found(&l, "", why).host == h);
    l.unknown = true;
    assert_true(found(&l, "127.0.0.0/8", why).host == 0);
    assert_string_equal(why, "NCCL's settings are not all known; the agent's log says why");
    l.unknown = false;
    assert_int_equal(setenv("NCCL_ENV_PLUGIN", "mine", 1), 0);
    assert_true(found(&l, "127.0.0.0/8", why).host == 0);
    assert_non_null(strstr(why, "NCCL_ENV_PLUGIN is mine"));
}

HSP_TEST_FILE(nccl_place_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_by_the_rules_of_nccl),
        cmocka_unit_test(every_interface_must_be_trusted),
        cmocka_unit_test(without_a_list_all_are_looked_at),
        cmocka_unit_test(networks_that_all_interfaces_have),
        cmocka_unit_test(every_rdma_device_must_be_trusted),
        cmocka_unit_test(what_cannot_be_seen_is_not_trusted),
        cmocka_unit_test(what_is_not_known),
        cmocka_unit_test(what_stays_on_this_host),
        cmocka_unit_test_setup_teardown(devices_as_the_kernel_shows_them, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_not_trusted, setup, teardown),
        cmocka_unit_test_setup_teardown(hosts_are_told_apart, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
