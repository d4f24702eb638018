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
    {"schedule", 's', "FORM", "draw when each stage does what: text, or trace (Chrome, Perfetto)"},
    {"live", 'l', NULL, "ask hspmdd: on the devices that are connected to it"},
    {"exit-code", 0, NULL, "with --live: exit code 10 when the job does not run just this plan"},
    {"transition", 't', NULL, "what a switch from plan FROM to plan TO moves, on --cluster"},
    END,
};

static const struct hsp_option program_options[] = {
    {"rank", 'r', "N", "only the program of this rank"},
    {"unsharded", 0, NULL, "the one-device program stored by compile --verify"},
    END,
};

static const struct hsp_option submit_options[] = {
    {"dry-run", 'n', NULL, "only show the plan on all devices, also those of other jobs"},
    {"verify", 0, NULL, "first check on this machine that this plan computes what one device does"},
    {"wait", 'w', NULL, "wait until the job is done; exit code 8 when it fails"},
    END,
};

static const struct hsp_option status_options[] = {
    {"watch", 'w', NULL, "again every second"},
    END,
};

static const struct hsp_option scale_options[] = {
    {"min", 0, "N", "devices at least"},
    {"max", 0, "N", "devices at most"},
    END,
};

static const struct hsp_option suspend_options[] = {
    {"within", 0, "TIME", "how long its checkpoint may take (default 60s), else it goes on"},
    END,
};

static const struct hsp_option resume_options[] = {
    {"from", 0, "STEP", "from the checkpoint of this step, not the newest; 0: anew"},
    END,
};

static const struct hsp_option check_options[] = {
    {"threshold", 0, "PART", "too slow is less than this part of what is on record (default 0.7)"},
    {"busy", 0, NULL, "measure nodes that execute a job, too, which slows it down meanwhile"},
    END,
};

static const struct hsp_option drain_options[] = {
    {"reason", 0, "TEXT", "why, for everybody who asks (required)"},
    END,
};

static const struct hsp_option undrain_options[] = {
    {"reason", 0, "TEXT", "why, for the events"},
    END,
};

static const struct hsp_option allow_options[] = {
    {"holder", 0, NULL, "to keep copies of the state of jobs that run elsewhere (required)"},
    END,
};

static const struct hsp_option adopt_options[] = {
    {"force", 0, NULL, "also without nodes of its newest layout that are gone for good"},
    {"from", 0, "NODE", "believe this node, or address, where agents do not tell the same"},
    END,
};

static const struct hsp_option discard_options[] = {
    {"force", 0, NULL, "also what is on record here"},
    END,
};

static const struct hsp_option wait_options[] = {
    {"for", 0, "WHAT", "done (default), running or step=N"},
    {"timeout", 0, "TIME", "give up after this, e.g. 10m: exit code 124 (default: never)"},
    END,
};

static const struct hsp_option feed_options[] = {
    {"since", 0, "N", "only events after this number"},
    {"follow", 'f', NULL, "and then as they come"},
    END,
};

static const struct hsp_option bundle_options[] = {
    {"file", 'f', "FILE", "the tar file to write (default: hspmd-bundle.tar)"},
    END,
};

static const struct hsp_option metrics_options[] = {
    {"since", 0, "STEP", "from this step on"},
    {"all", 0, NULL, "also of a history that was given up, where no other was told since"},
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
         "Sends the job file with the plan files it names, prints who will get what on the\n"
         "devices there are and the commands to watch it. Paths in the job are paths on the\n"
         "workers: absolute ones. checkpoint.path is a folder that stays, not one below /tmp:\n"
         "the service hspmd-worker has a /tmp of its own, which is deleted when it stops. A job\n"
         "for which there are not resources.min devices waits for them, and the answer says so\n"
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
         "which are used up, and all tokens read, as of its newest committed step; and by\n"
         "what its executors talk to each other in the epoch that runs: connections by\n"
         "shared memory (shm), Unix sockets (unix), TCP with TLS (tcp+tls), or TCP in\n"
         "clear (tcp). Of nodes also which pairs of them cannot reach each other, since when,\n"
         "and when that is tried again; jobs do without one of each two meanwhile. LEFT OUT lists\n"
         "devices and nodes that plans do without because of a failure, until they are tried "
         "again\n"
         "by themselves or by undrain. A node that has gone is listed, with the time since then,\n"
         "until node remove or forget_after.",
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
     .summary = "what happened, of all or of one job",
     .help = "",
     .options = feed_options,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSONL),
     .run = hsp_cmd_events},
    {.name = "logs",
     .operands = "JOB",
     .summary = "what happened to a job",
     .help = "",
     .options = feed_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSONL),
     .run = hsp_cmd_logs},
    {.name = "metrics",
     .operands = "JOB",
     .summary = "loss and the like of each step",
     .help =
         "-o csv and jsonl have all digits; numbers that are not finite are nan, inf or -inf,\n"
         "in JSON texts. Of each step the newest epoch's line is kept. What was given up, as by\n"
         "resume --from, is left out at once, before the job has come to its steps again.",
     .options = metrics_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSONL) | AS(CSV),
     .run = hsp_cmd_metrics},
    {.name = "trace",
     .operands = "JOB",
     .summary = "record what each device does in the next steps, for Perfetto or Chrome",
     .help =
         "All devices of the epoch that runs record the same steps: when each instruction begins\n"
         "and ends on the queues for computation, communication and state, with its step,\n"
         "micro-batch, stage and phase; arrows are messages. The file is a JSON object of trace\n"
         "events: a process is a device, a thread a queue. All times are on the clock of hspmdd,\n"
         "as well as the round trips of heartbeats tell; how far each device may be off stands\n"
         "in otherData. Of a device with very many instructions in these steps spans are runs of\n"
         "them. When the epoch ends meanwhile (a switch, a loss) the trace has what was recorded\n"
         "until then, and says so. Training goes on, hardly slower; one trace of a job at a time.",
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
     .summary = "end a job; its state goes, its checkpoints stay",
     .help = "Of a failed job it deletes the state that its workers keep.",
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_cancel},
    {.name = "forget",
     .operands = "JOB",
     .summary = "remove a job that has ended; its checkpoints stay",
     .help =
         "Deletes its record and its metrics, and the state of a failed job on\n"
         "its workers. Its checkpoints stay on disk, but resume cannot take them any more. The\n"
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
         "again. A job that has not begun is suspended at once. A job that is being mended is\n"
         "suspended when it runs again; resume takes the wish back.",
     .options = suspend_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_suspend},
    {.name = "resume",
     .operands = "JOB",
     .summary = "let a suspended, failed or cancelled job go on",
     .help =
         "A failed job goes on from the state that its workers keep, and no step is made again;\n"
         "others, and one whose workers have not all of it, from the newest checkpoint. Without\n"
         "a checkpoint it begins anew, at step 0. With one it goes on with the next sample of\n"
         "its data, so the files of data.path must be those it was trained on. Every element is\n"
         "compared with what was written. Where no node has that checkpoint whole it is waited\n"
         "for (state_wait), then the next older one is taken, which the event ckpt.fallback\n"
         "tells with the steps that are made again. Where a node that has run the job is away,\n"
         "or cannot look which there are, and no other sees one, the job waits, as status says;\n"
         "--from 0 begins anew. Checkpoints of later steps than the one that the job went on\n"
         "from are of another history, and not used any more, but --from may name any complete\n"
         "one on disk. A job that runs is refused: cancel it first. Of a failed job\n"
         "--from deletes the state that its workers keep.\n"
         "A job of which the loss is not finite any more has diverged: resume is refused, and\n"
         "names the newest checkpoint with a finite loss, for --from.\n"
         "A job that is held after hspmdd --restore, as status says, goes on from the state that\n"
         "its agents keep, else in the same way.",
     .options = resume_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_resume},
    {.name = "job adopt",
     .operands = "JOB",
     .summary = "let a job go on that agents keep, and that hspmdd has lost",
     .help =
         "For an hspmdd that began with an empty folder (its agents are foreign), or whose store "
         "is\n"
         "older than its agents (the job is behind, or was submitted since). Job file, plans and\n"
         "data identity come from the agents, which keep them beside the state; the job goes on\n"
         "from the newest version that they hold, and no step is lost. Where several have its\n"
         "name its number does, or NUMBER@CLUSTER. All nodes of its newest layout must be "
         "connected,\n"
         "for one that is not may have gone further. It says whose papers it has taken. Where\n"
         "agents do not tell the same, or one of several has the newest papers, it takes none and\n"
         "lists what they say: --from names the one to believe. Other jobs that these nodes keep\n"
         "stay as they are until they are adopted. Lines of metrics and events from before are\n"
         "not here; the metrics.jsonl of the job is whole.",
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
         "given-up: the job went on from an earlier one since; only resume --from takes it.\n"
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
         "Starts hspmd-worker --verify-checkpoint on this machine, so it is asked on a worker of\n"
         "the job, or wherever the shared folder is. A word with a / is a folder: that of a job,\n"
         "which is checkpoint.path/JOB. Steps there of an earlier job of the name are told apart.\n"
         "Exit code 1 when something is damaged.",
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
         "each pair the link between them, both ways, as executors would use it. RECORD is what\n"
         "planning goes by: the devices as measured when their agent started, the links as far as\n"
         "uplinks tell. RATIO is the worst rate over that on record, SHARE the part of the time\n"
         "that a device got its core. Less than the threshold is slow, or crowded. A latency is\n"
         "slow when it is more than 1/threshold of the record and 0.1 ms longer. Nodes that\n"
         "execute a job are left out. Nothing is changed; interrupted, it stops on the nodes, "
         "too.\n"
         "Exit code 1 when anything is slow, crowded or cannot be reached, 7 when nothing could\n"
         "be measured.",
     .options = check_options,
     .max_pos = 64,
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_node_check},
    {.name = "node allow",
     .operands = "NODE",
     .summary = "let a node keep copies of state for jobs on other nodes",
     .help =
         "Such a node gets the whole state of those jobs, so none does before it is allowed. The\n"
         "node may join later: the answer says that no node of that name has joined yet. It is\n"
         "the name that is allowed: after the node is dead or has left, whoever holds the worker\n"
         "key can take the name, and gets copies. `node deny` ends it. `status JOB` says when a\n"
         "copy waits for it; `node show` says what is allowed.",
     .options = allow_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_allow},
    {.name = "node deny",
     .operands = "NODE",
     .summary = "let a node keep no copies of state",
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
         "have gone are forgotten by themselves after forget_after of hspmdd.yaml.\n"
         "Also ends the claims of an agent under its name without a proof, and the word of this\n"
         "node that there is a newer hspmdd.",
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_remove},
    {.name = "node adopt",
     .operands = "NODE",
     .summary = "adopt all jobs that a node keeps and that are not on record here",
     .help =
         "As job adopt, one after the other; the first that cannot be adopted ends it. Nodes that\n"
         "are not here for a moment, as the job before was adopted, are waited for, 5 s at most.",
     .options = adopt_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_adopt},
    {.name = "node discard",
     .operands = "NODE|ADDRESS",
     .summary = "delete what a node keeps of jobs that are not on record here",
     .help =
         "Also of jobs that are not adopted, on a node that is live. Its executors stop, the "
         "state\n"
         "of those jobs there is gone for good, and a foreign node joins. Refused where it keeps\n"
         "more of a job than is on record here. Checkpoints stay.",
     .options = discard_options,
     .min_pos = 1,
     .max_pos = 1,
     .run = hsp_cmd_node_discard},
    {.name = "drain",
     .operands = "NODE",
     .summary = "move jobs off a node before it is taken away",
     .help =
         "No step is lost. The node stays connected and gets no work until undrain. It is\n"
         "draining until nothing is left there, and REASON in status says what is; then it is\n"
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
     .summary = "show who would get what, step time and memory; changes nothing",
     .help =
         "Plans the job for a described cluster and prints, for every rank, its device, blocks,\n"
         "sequences, times and memory, and the best structures that were rejected. The plan is\n"
         "--plan, else the first of the job's annotations that fits, else the planner's.\n"
         "-o yaml writes a total plan, ready for `annotations:` and compile --plan; of every\n"
         "Reshard it says what it is (all_reduce, bsr, ..) and how many microseconds it takes.\n"
         "With --transition: bytes and seconds of each link when the job goes from the plan file\n"
         "FROM to TO, the busiest network card, and the phases of the switch. FROM may be the name "
         "of\n"
         "a job that hspmdd runs: the plan it has now. Rank i of FROM is\n"
         "on the i-th device of the cluster, that of TO on the i-th that --exclude does not name;\n"
         "those named are gone with all they had.",
     .options = plan_options,
     .min_pos = 1,
     .max_pos = 3,
     .formats = AS(TABLE) | AS(JSON) | AS(YAML),
     .run = hsp_cmd_plan},
    {.name = "plan show",
     .operands = "JOB",
     .summary = "print the total plan that a job at hspmdd runs",
     .help =
         "Everything is said in it: uses, Reshards, homes. compile --plan makes the same programs\n"
         "of it. While a job waits for its first devices it has none.",
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
     .summary = "check on this machine that a plan computes what one device does",
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
     .summary = "save what hspmdd knows of nodes and jobs, while it runs",
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
