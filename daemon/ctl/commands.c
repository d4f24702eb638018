#include "daemon/ctl/commands.h"

#include "daemon/ctl/cmd_adopt.h"
#include "daemon/ctl/cmd_backup.h"
#include "daemon/ctl/cmd_bundle.h"
#include "daemon/ctl/cmd_check.h"
#include "daemon/ctl/cmd_ckpt.h"
#include "daemon/ctl/cmd_compile.h"
#include "daemon/ctl/cmd_feed.h"
#include "daemon/ctl/cmd_help.h"
#include "daemon/ctl/cmd_job.h"
#include "daemon/ctl/cmd_node.h"
#include "daemon/ctl/cmd_plan.h"
#include "daemon/ctl/cmd_show.h"
#include "daemon/ctl/cmd_status.h"
#include "daemon/ctl/cmd_submit.h"
#include "daemon/ctl/cmd_trace.h"
#include "daemon/ctl/cmd_verify.h"
#include "daemon/ctl/command.h"

#define AS(f) (1u << HSP_FORMAT_##f)
#define END                 \
    {                       \
        NULL, 0, NULL, NULL \
    }

static const struct hsp_option compile_options[] = {
    {"output", 'o', "FILE", "the program file to write (required)"},
    {"plan", 'p', "PLAN", "use this plan file instead of the job's annotations and the planner"},
    {"cluster", 'c', "FILE", "plan for this described cluster"},
    {"verify", 0, NULL, "the same templates at small extents, for hspmd-worker --verify"},
    {"out", 0, "DIR", "where hspmd-worker --run leaves the trained model and metrics"},
    END,
};

static const struct hsp_option verify_options[] = {
    {"plan", 'p', "PLAN", "use this plan file instead of the job's annotations and the planner"},
    {"cluster", 'c', "FILE", "plan for this described cluster"},
    END,
};

static const struct hsp_option plan_options[] = {
    {"cluster", 'c', "FILE", "a described cluster; without it one CPU core is assumed"},
    {"plan", 'p', "PLAN", "price this plan file instead of planning"},
    {"exclude", 'x', "DEVICE,..", "leave out these devices: NODE/INDEX, or NODE for all of it"},
    {"no-zero", 0, NULL, "never cut the optimizer state over the pipelines"},
    {"schedule", 's', "FORM", "draw the schedule of each stage: text, or trace (Chrome, Perfetto)"},
    {"live", 'l', NULL, "ask hspmdd to plan for its connected devices"},
    {"exit-code", 0, NULL, "with --live: exit code 10 when the job does not run exactly this plan"},
    {"transition", 't', NULL,
     "show the state moved by a switch from plan FROM to TO, on --cluster"},
    END,
};

static const struct hsp_option program_options[] = {
    {"rank", 'r', "N", "only the program of this rank"},
    {"unsharded", 0, NULL, "the one-device program stored by compile --verify"},
    END,
};

static const struct hsp_option submit_options[] = {
    {"dry-run", 'n', NULL, "only show the plan on all devices, also those of other jobs"},
    {"verify", 0, NULL,
     "first check on this machine that this plan gives the results of one device"},
    {"wait", 'w', NULL, "wait until the job is done; exit code 8 when it fails"},
    END,
};

static const struct hsp_option status_options[] = {
    {"watch", 'w', NULL, "refresh every second"},
    END,
};

static const struct hsp_option scale_options[] = {
    {"min", 0, "N", "minimum number of devices"},
    {"max", 0, "N", "maximum number of devices"},
    END,
};

static const struct hsp_option suspend_options[] = {
    {"within", 0, "TIME",
     "time limit of its checkpoint (default 60s); after that the job continues"},
    END,
};

static const struct hsp_option resume_options[] = {
    {"from", 0, "STEP", "use the checkpoint of this step, not the newest; 0: start again"},
    END,
};

static const struct hsp_option check_options[] = {
    {"threshold", 0, "PART", "report rates below this part of the recorded rate (default 0.7)"},
    {"busy", 0, NULL, "also measure nodes that execute a job, and slow it down meanwhile"},
    END,
};

static const struct hsp_option drain_options[] = {
    {"reason", 0, "TEXT", "reason, shown by status (required)"},
    END,
};

static const struct hsp_option undrain_options[] = {
    {"reason", 0, "TEXT", "reason, shown in the events"},
    END,
};

static const struct hsp_option allow_options[] = {
    {"holder", 0, NULL, "store copies of the state of jobs that run elsewhere (required)"},
    END,
};

static const struct hsp_option adopt_options[] = {
    {"force", 0, NULL, "even if nodes of its newest layout are lost for good"},
    {"from", 0, "NODE", "trust this node, or address, when agents contradict each other"},
    END,
};

static const struct hsp_option discard_options[] = {
    {"force", 0, NULL, "also delete state of jobs that hspmdd knows"},
    END,
};

static const struct hsp_option wait_options[] = {
    {"for", 0, "WHAT", "done (default), running or step=N"},
    {"timeout", 0, "TIME", "give up after this, e.g. 10m: exit code 124 (default: never)"},
    END,
};

static const struct hsp_option feed_options[] = {
    {"since", 0, "N", "only events after this number"},
    {"follow", 'f', NULL, "then print new events as they occur"},
    END,
};

static const struct hsp_option bundle_options[] = {
    {"file", 'f', "FILE", "the tar file to write (default: hspmd-bundle.tar)"},
    END,
};

static const struct hsp_option metrics_options[] = {
    {"since", 0, "STEP", "from this step on"},
    {"all", 0, NULL, "also lines of a history that was given up and not yet replaced"},
    END,
};

static const struct hsp_option trace_options[] = {
    {"output", 'o', "FILE",
     "the file to write; without it the trace goes to standard output, unless a terminal"},
    {"steps", 0, "N", "how many steps, 1 to 64 (default 3)"},
    END,
};

const struct hsp_command hsp_commands[] = {
    {.name = "submit",
     .operands = "JOB.yaml",
     .summary = "hand a job to hspmdd",
     .help =
         "Sends the job file with the plan files it names, prints the placement on the present\n"
         "devices and the commands to watch the job. Paths in the job are paths on the workers:\n"
         "absolute ones. checkpoint.path is a folder that stays, not one below /tmp: the service\n"
         "hspmd-worker has a /tmp of its own, which is deleted when it stops. A job that needs\n"
         "more devices than are free (resources.min) waits for them, and the answer says so\n"
         "instead of a plan. With --verify it is not sent when its plan fails the check (exit\n"
         "code 1); while no worker is connected the plan is chosen as by verify. The model of a\n"
         "job that is done is in PATH/JOB/final, PATH being checkpoint.path, on the node that\n"
         "status JOB names.",
     .options = submit_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_submit},
    {.name = "status",
     .operands = "[JOB|NODE]",
     .summary = "show jobs and nodes, or all about one",
     .help =
         "Of a job also where it is in its data: the pass over them, the samples of that pass\n"
         "which are used up, and all tokens read, as of its newest committed step; and the\n"
         "transport between its executors in the epoch that runs: connections by shared memory\n"
         "(shm), Unix sockets (unix), TCP with TLS (tcp+tls), or TCP in clear (tcp). Of nodes\n"
         "also which pairs of them cannot reach each other, since when, and when that is tried\n"
         "again; jobs use only one of each two meanwhile. LEFT OUT lists devices and nodes that\n"
         "plans do without because of a failure, until they are tried again by themselves or by\n"
         "undrain. A node that has gone is listed, with the time since then, until node remove\n"
         "or forget_after.",
     .options = status_options,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_status},
    {.name = "wait",
     .operands = "JOB",
     .summary = "wait until a job is done, runs, or has reached a step",
     .help =
         "Exit code 8 when the job fails or is cancelled first, 124 when the time is over. A\n"
         "restart of hspmdd within 5 minutes does not end it. While the final model cannot be\n"
         "written, standard error says why. It is in PATH/JOB/final, PATH being checkpoint.path,\n"
         "on the node that status JOB names.",
     .options = wait_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_wait},
    {.name = "events",
     .operands = "[JOB]",
     .summary = "print the events of all jobs or of one",
     .help = "",
     .options = feed_options,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSONL),
     .run = hsp_cmd_events},
    {.name = "logs",
     .operands = "JOB",
     .summary = "print the events of a job",
     .help = "",
     .options = feed_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSONL),
     .run = hsp_cmd_logs},
    {.name = "metrics",
     .operands = "JOB",
     .summary = "loss, learning rate, gradient norm and time of each step",
     .help =
         "-o csv and jsonl have all digits; numbers that are not finite are nan, inf or -inf, in\n"
         "JSON texts. Of each step the newest epoch's line is kept. Steps that were given up, as\n"
         "by resume --from, are left out at once, before the job has come to its steps again.",
     .options = metrics_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSONL) | AS(CSV),
     .run = hsp_cmd_metrics},
    {.name = "trace",
     .operands = "JOB",
     .summary = "record the work of each device in the next steps, for Perfetto or Chrome",
     .help =
         "All devices of the epoch that runs record the same steps: when each instruction begins\n"
         "and ends on the queues for computation, communication and state, with its step,\n"
         "micro-batch, stage and phase; arrows are messages. The file is a JSON object of trace\n"
         "events: a process is a device, a thread a queue. All times are on the clock of hspmdd,\n"
         "as well as the round trips of heartbeats tell; how far each device may be off stands\n"
         "in otherData. Of a device with very many instructions in these steps spans are runs of\n"
         "them. When the epoch ends meanwhile (a switch, a loss) the trace ends there, and says\n"
         "so. Training goes on, hardly slower; one trace of a job at a time.",
     .options = trace_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_trace},
    {.name = "scale",
     .operands = "JOB",
     .summary = "change how many devices a job may use",
     .help = "The running job grows or shrinks without a restart.",
     .options = scale_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_scale},
    {.name = "cancel",
     .operands = "JOB",
     .summary = "cancel a job; its state is deleted, its checkpoints stay",
     .help = "For a failed job it deletes the state that its workers store.",
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_cancel},
    {.name = "forget",
     .operands = "JOB",
     .summary = "remove a job that has ended; its checkpoints stay",
     .help =
         "Deletes its record and its metrics, and the state of a failed job on\n"
         "its workers. Its checkpoints stay on disk, but resume cannot use them any more. The\n"
         "folder tb of hspmdd, which TensorBoard reads, stays too. Where several jobs of a name\n"
         "have ended it is refused, with their numbers.",
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_forget},
    {.name = "suspend",
     .operands = "JOB",
     .summary = "write a checkpoint and give the devices back, to resume later",
     .help =
         "The job is then `suspended`, also over restarts of hspmdd, until it is resumed on the\n"
         "nodes there are then, or cancelled; wait waits on. Resume continues with the losses of\n"
         "a run that was never suspended: steps made while the checkpoint was written are made\n"
         "again. A job that has not begun is suspended at once. A job that is recovering is\n"
         "suspended when it runs again; resume withdraws the request.",
     .options = suspend_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_suspend},
    {.name = "resume",
     .operands = "JOB",
     .summary = "resume a suspended, failed or cancelled job",
     .help =
         "A failed job continues from the state that its workers store, and no step is computed\n"
         "again. Other jobs, and a failed job whose workers lack part of that state, continue\n"
         "from the newest checkpoint. Without a checkpoint it starts again at step 0. With one\n"
         "it continues with the next sample of its data, so the files of data.path must be those\n"
         "it was trained on. Every element is compared with the hash that was written. If no\n"
         "node has the whole checkpoint the job waits for it (state_wait), then uses the next\n"
         "older one; the event ckpt.fallback gives the number of steps that are computed again.\n"
         "If a node that has run the job is away or cannot list its checkpoints, and no other\n"
         "node sees one, the job waits, as status says; --from 0 starts again. Checkpoints of\n"
         "later steps than the one that the job resumed from belong to another history, and are\n"
         "not used any more, but --from may name any complete one on disk. A job that runs is\n"
         "refused: cancel it first. For a failed job, --from deletes the state that its workers\n"
         "store. A job whose loss is no longer finite has diverged: resume is refused, and names\n"
         "the newest checkpoint with a finite loss, for --from. A job that is held after hspmdd\n"
         "--restore, as status says, continues from the state that its agents store, else in the\n"
         "same way.",
     .options = resume_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_resume},
    {.name = "job adopt",
     .operands = "JOB",
     .summary = "take over a job that agents store and hspmdd has lost",
     .help =
         "For an hspmdd that began with an empty folder (its agents are foreign), or whose store\n"
         "is older than its agents (the job is behind, or was submitted since). Job file, plans\n"
         "and data identity come from the agents, which store them beside the state; the job\n"
         "continues from the newest version that they hold, and no step is lost. If several jobs\n"
         "have the name, give the number, or NUMBER@CLUSTER. All nodes of its newest layout must\n"
         "be connected, because a missing node may have newer state. The answer names the node\n"
         "whose job record was used. If the agents contradict each other, or only one of several\n"
         "has the newest job record, none is used and the answer lists them: choose one with\n"
         "--from. Other jobs that these nodes store stay as they are until they are adopted.\n"
         "Lines of metrics and events from before are not here; the metrics.jsonl of the job is\n"
         "whole.",
     .options = adopt_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_job_adopt},
    {.name = "ckpt list",
     .operands = "JOB",
     .summary = "checkpoints of a job: as they were reported, then those on disk",
     .help =
         "on_disk: complete, and the nodes that see it now; not_seen: nodes that could not look.\n"
         "gone: was reported complete, and no node sees it now, as checkpoint.keep deletes it.\n"
         "given-up: the job resumed from an earlier one since; only resume --from uses it.\n"
         "status JOB says where they are, with -o json also the steps that are kept\n"
         "(checkpoint_steps).",
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSONL),
     .run = hsp_cmd_ckpt_list},
    {.name = "ckpt save",
     .operands = "JOB",
     .summary = "write a checkpoint now",
     .help = "",
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_ckpt_save},
    {.name = "ckpt verify",
     .operands = "JOB|DIR",
     .summary = "read a job's checkpoints whole and compare all hashes",
     .help =
         "Starts hspmd-worker --verify-checkpoint on this machine, so run it on a worker of the\n"
         "job, or on any host that mounts the shared folder. A word with a / is a folder: that\n"
         "of a job, which is checkpoint.path/JOB. Steps there of an earlier job of the name are\n"
         "told apart. Exit code 1 when something is damaged.",
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_ckpt_verify},
    {.name = "node list",
     .operands = "",
     .summary = "all nodes with their devices",
     .help = "",
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_node},
    {.name = "node show",
     .operands = "NODE",
     .summary = "one node with its devices, its link to hspmdd and its network cards",
     .help = "",
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_node},
    {.name = "node check",
     .operands = "[NODE...]",
     .summary = "measure nodes and the links between them again, and compare",
     .help =
         "All connected nodes, at most 64, or those named: each measures its devices again, then\n"
         "each pair the link between them, both ways, as executors would use it. RECORD is the\n"
         "rate that planning uses: of devices as measured when their agent started, of links as\n"
         "computed from their uplinks. RATIO is the worst rate over the recorded rate, SHARE the\n"
         "part of the time that a device got its core. Less than the threshold is slow, or\n"
         "crowded. A latency is slow when it is more than 1/threshold of the record and 0.1 ms\n"
         "longer. Nodes that execute a job are left out. Nothing is changed; interrupted, it\n"
         "stops on the nodes, too. Exit code 1 when anything is slow, crowded or cannot be\n"
         "reached, 7 when nothing could be measured.",
     .options = check_options,
     .max_pos = 64,
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_node_check},
    {.name = "node allow",
     .operands = "NODE",
     .summary = "let a node store copies of state for jobs on other nodes",
     .help =
         "Such a node gets the whole state of those jobs, so none does before it is allowed. The\n"
         "node may join later: the answer says that no node of that name has joined yet. The\n"
         "permission belongs to the name: after the node is dead or has left, any holder of the\n"
         "worker key can take the name, and gets copies. `node deny` ends it. `status JOB` says\n"
         "when a copy waits for it; `node show` shows the permission.",
     .options = allow_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_allow},
    {.name = "node deny",
     .operands = "NODE",
     .summary = "stop a node from storing copies of state",
     .help = "Its copies move to other allowed nodes, where there are any, by a switch: no step\n"
             "is lost.",
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_deny},
    {.name = "node remove",
     .operands = "NODE",
     .summary = "forget a node that has gone for good",
     .help =
         "Its drain and its permissions are forgotten with it. Refused while it is connected,\n"
         "while it may come back, and while a job may need the state that it holds. Nodes that\n"
         "have gone are forgotten by themselves after forget_after of hspmdd.yaml. Also ends the\n"
         "claims of an agent under its name without a proof, and the report of this node of a\n"
         "newer hspmdd.",
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_remove},
    {.name = "node adopt",
     .operands = "NODE",
     .summary = "adopt all jobs that a node stores and hspmdd does not know",
     .help =
         "As job adopt, one after the other; the first that cannot be adopted ends it. Nodes\n"
         "that disconnect for a moment, when the job before was adopted, are waited for, 5 s at\n"
         "most.",
     .options = adopt_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_adopt},
    {.name = "node discard",
     .operands = "NODE|ADDRESS",
     .summary = "delete the state on a node of jobs that hspmdd does not know",
     .help = "Also of jobs that are not adopted, on a node that is live. Its executors stop, the\n"
             "state of those jobs there is gone for good, and a foreign node joins. Refused if it\n"
             "stores more of a job than hspmdd knows. Checkpoints stay.",
     .options = discard_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_discard},
    {.name = "drain",
     .operands = "NODE",
     .summary = "move jobs off a node before it is taken away",
     .help =
         "No step is lost. The node stays connected and gets no work until undrain. It is\n"
         "draining until it has no state, and REASON in status lists the rest; then it is\n"
         "drained. A final model that cannot be written there is written on another node; where\n"
         "there is none, status says so.",
     .options = drain_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_drain},
    {.name = "undrain",
     .operands = "NODE",
     .summary = "let a node take jobs again",
     .help = "",
     .options = undrain_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_undrain},
    {.name = "plan",
     .operands = "JOB [FROM TO]",
     .summary = "show placement, step time and memory of a plan; changes nothing",
     .help =
         "Plans the job for a described cluster and prints, for every rank, its device, blocks,\n"
         "sequences, times and memory, and the best structures that were rejected. The plan is\n"
         "--plan, else the first of the job's annotations that fits, else the planner's. -o yaml\n"
         "writes a total plan, ready for `annotations:` and compile --plan; of every Reshard it\n"
         "gives the kind (all_reduce, bsr, ..) and the microseconds it takes. With --transition:\n"
         "bytes and seconds of each link when the job goes from the plan file FROM to TO, the\n"
         "busiest network card, and the phases of the switch. FROM may be the name of a job that\n"
         "hspmdd runs: the plan it has now. Rank i of FROM is on the i-th device of the cluster,\n"
         "that of TO on the i-th that --exclude does not name; the named ones are lost with\n"
         "their state.",
     .options = plan_options,
     .min_pos = 1,
     .max_pos = 3,
     .formats = AS(TABLE) | AS(JSON) | AS(YAML),
     .run = hsp_cmd_plan},
    {.name = "plan show",
     .operands = "JOB",
     .summary = "print the total plan that a job at hspmdd runs",
     .help =
         "The plan is complete: uses, Reshards, homes. compile --plan makes the same programs of\n"
         "it. While a job waits for its first devices it has none.",
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(YAML),
     .run = hsp_cmd_plan_show},
    {.name = "compile",
     .operands = "JOB",
     .summary = "compile a job into a program file for hspmd-worker --run",
     .help =
         "The plan is --plan, else the first of the job's annotations that fits --cluster, else\n"
         "the planner's for --cluster; without a cluster: the first annotation, else one device.",
     .options = compile_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = 0,
     .run = hsp_cmd_compile},
    {.name = "verify",
     .operands = "PLAN|JOB",
     .summary = "check on this machine that a plan gives the results of one device",
     .help =
         "The job's own templates at small extents run beside the program of one device; every\n"
         "tensor, gradient and parameter is compared; of a job that computes in bf16 twice: in\n"
         "bf16, within its rounding, and with fp32 in its place. Of a job file the plan is chosen\n"
         "as by compile; of a job at hspmdd (a word that is no file) it is the one that runs; of "
         "a\n"
         "plan file alone the job is a small gpt with its layers and sequences. Exit code 1: they\n"
         "differ, and the first op and rank that do are named.",
     .options = verify_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = 0,
     .run = hsp_cmd_verify},
    {.name = "program show",
     .operands = "FILE|JOB",
     .summary = "print the programs of a program file, or of a running job",
     .help =
         "Tensors, instructions, moves and schedules of every rank, or of one; of a pool for each\n"
         "length. A word that is no file is a job at hspmdd.",
     .options = program_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE),
     .run = hsp_cmd_program_show},
    {.name = "graph show",
     .operands = "FILE|JOB",
     .summary = "print the single-device training graph of a job",
     .help =
         "Parameters, tensors and nodes, forward then backward. A word that is no file is a job\n"
         "at hspmdd.",
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE),
     .run = hsp_cmd_graph_show},
    {.name = "backup",
     .operands = "FILE",
     .summary = "save the store of hspmdd (nodes and jobs) while it runs",
     .help = "The file is for its owner only, and is replaced whole. `hspmdd -c CONFIG --restore\n"
             "FILE` puts it back. Not in it: keys, configuration, TensorBoard files, and training\n"
             "state, which is with the workers, and in checkpoints; see RECOVERY in hspmdd(8).\n"
             "Damaged lines of events and metrics are left out, and counted.",
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_backup},
    {.name = "debug bundle",
     .operands = "",
     .summary = "one tar with status, events, plans and configuration, to report a problem",
     .help = "Configuration files are those of this machine; values of keys are cut out.",
     .options = bundle_options,
     .run = hsp_cmd_debug_bundle},
    {.name = "version",
     .operands = "",
     .summary = "print the version",
     .help = "",
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_version},
    {.name = "help",
     .operands = "[CMD]",
     .summary = "explain a command",
     .help = "`help node` lists the commands that begin with node.",
     .max_pos = 3,
     .run = hsp_cmd_help},
    {.name = NULL},
};
