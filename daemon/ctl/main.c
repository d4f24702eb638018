/* Starts hspmdctl. */
#include "daemon/ctl/ctl_run.h"

int main(int argc, char **argv)
{
    return hsp_ctl_run(argc, (const char *const *)argv, stdout, stderr);
}
