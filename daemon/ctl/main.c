/* hspmdctl; see ctl.c. */
#include "daemon/ctl/ctl.h"

int main(int argc, char **argv)
{
    return hsp_ctl_run(argc, (const char *const *)argv, stdout, stderr);
}
