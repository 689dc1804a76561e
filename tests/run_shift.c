/*
 * Claims, ownership, the fence, shifts.tsv.
 *
 * Owners are made by writing claim files; SLURM is a small script "squeue" that stands first in PATH.
 */
#include <signal.h>

#include "run/claim.h"
#include "run_fixture.h"

static void write_text(const char *path, const char *text)
{
	if (file_publish(path, text, strlen(text)))
		exit(1);
}

/* squeue as a script. */
static void fake_squeue(const char *body)
{
	char *folder = path_join(check_scratch(), "bin"), *path = path_join(folder, "squeue");
	struct text text = {0};
	file_make_directory(folder);
	text_format(&text, "#!/bin/sh\n%s\n", body);
	write_text(path, text.data);
	chmod(path, 0755);
	text_release(&text);
	free(path);
	free(folder);
}

static void use_fake_squeue(void)
{
	struct text text = {0};
	text_format(&text, "%s/bin:%s", check_scratch(), getenv("PATH"));
	setenv("PATH", text.data, 1);
	text_release(&text);
}

/* ---- identity ---- */

static void clear_environment(void)
{
	static const char *const names[] = {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
		"SLURM_RESTART_COUNT", "NIGHTSHIFT_JOB", "NIGHTSHIFT_RESTART", "SLURM_STEP_NUM_TASKS",
		"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
}

static void test_identity(void)
{
	struct shift_identity identity;
	clear_environment();
	shift_identity(&identity);
	check(!strcmp(identity.job, "-") && identity.restart == 0 && identity.pid == getpid() &&
			identity.host[0],
		"identity without SLURM");
	setenv("NIGHTSHIFT_JOB", "bash-here-1", 1);
	setenv("NIGHTSHIFT_RESTART", "4", 1);
	shift_identity(&identity);
	check(!strcmp(identity.job, "bash-here-1") && identity.restart == 4, "identity of a looping script");
	setenv("SLURM_JOB_ID", "123", 1);
	shift_identity(&identity);
	check(!strcmp(identity.job, "123") && identity.restart == 0, "identity of a job");
	setenv("SLURM_RESTART_COUNT", "2", 1);
	setenv("SLURM_ARRAY_JOB_ID", "120", 1);
	setenv("SLURM_ARRAY_TASK_ID", "4", 1);
	shift_identity(&identity);
	check(!strcmp(identity.job, "120_4") && identity.restart == 2, "identity of an array element");
	clear_environment();
}

/* ---- rows ---- */

static void test_rows(void)
{
	char *path = fixture_make("rows", NULL), *file = path_join(path, "shifts.tsv");
	struct run run;
	struct shift_row *rows, row = {.shift = -1,
					.event = "requeue",
					.time = "2026-01-01T00:00:00Z",
					.job = "7",
					.restart = 1,
					.nodes = -1,
					.world = -1,
					.step = 5,
					.status = 75};
	size_t count;
	run_open(path, &run);
	check(!shift_rows(&run, &rows, &count) && count == 0, "no table yet");
	free(rows);
	snprintf(row.reason, sizeof row.reason, "a\ttab and a \\");
	check_status(shift_row_add(&run, &row), 0, "a row is added");
	check_status(shift_rows(&run, &rows, &count), 0, "rows are read");
	check(count == 1 && rows[0].shift == -1 && rows[0].nodes == -1 && rows[0].step == 5 &&
			rows[0].status == 75 && !strcmp(rows[0].reason, row.reason) &&
			!strcmp(rows[0].event, "requeue"),
		"the row is what was added");
	free(rows);
	char *data;
	size_t bytes;
	file_read(file, 65536, &data, &bytes);
	check(!strncmp(data,
		      "#shift\tevent\ttime\tjob\trestart\tnodes\tworld\tstep\tstatus\treason\n-\trequeue\t",
		      70),
		"the table has its header");
	free(data);
	/* A writer was killed inside its line; a newer version has more columns. */
	int descriptor = open(file, O_WRONLY | O_APPEND);
	check(write(descriptor, "3\tend\t2026", 10) == 10, "a torn line");
	check(!shift_rows(&run, &rows, &count) && count == 1, "is not read");
	free(rows);
	row.shift = 4;
	check_status(shift_row_add(&run, &row), 0, "a row behind it");
	static const char wide[] = "5\tend\tt\tj\t0\t1\t1\t9\t0\tdone\tmore\n";
	check(write(descriptor, wide, sizeof wide - 1) == sizeof wide - 1, "a row with one more column");
	check(!shift_rows(&run, &rows, &count) && count == 3 && rows[1].shift == 4 && rows[2].shift == 5 &&
			!strcmp(rows[2].reason, "done"),
		"both are read, the torn one is not");
	free(rows);
	close(descriptor);
	run_close(&run);
	free(file);
	free(path);
}

/* ---- ownership ---- */

static void make_claim(const struct run *run, int64_t number, const struct claim *claim)
{
	struct text text = {0};
	char *folder = run_path(run, "shifts"), *path = run_path(run, "shifts/%lld", (long long)number);
	file_make_directory(folder);
	claim_format(claim, &text);
	write_text(path, text.data);
	text_release(&text);
	free(path);
	free(folder);
}

/* What shift_check() says to (job, restart) about an owner. */
static int judge(const struct run *run, const struct claim *owner, const char *job, int64_t restart)
{
	struct shift_identity identity;
	shift_identity(&identity);
	snprintf(identity.job, sizeof identity.job, "%s", job);
	identity.restart = restart;
	make_claim(run, 1, owner);
	return shift_check(run, &identity, false);
}

static pid_t start_sleeper(void)
{
	pid_t child = fork();
	if (!child) {
		execlp("sleep", "sleep", "60", (char *)NULL);
		_exit(127);
	}
	return child;
}

static void claim_of(struct claim *claim, const char *job, int64_t restart, int64_t pid)
{
	struct shift_identity identity;
	shift_identity(&identity);
	snprintf(identity.job, sizeof identity.job, "%s", job);
	identity.restart = restart;
	identity.pid = pid;
	claim_self(&identity, claim);
}

static void test_processes(void)
{
	char *path = fixture_make("processes", NULL);
	struct run run;
	struct claim owner;
	pid_t sleeper = start_sleeper();
	run_open(path, &run);
	claim_of(&owner, "-", 0, sleeper);
	check_status(judge(&run, &owner, "-", 0), STATUS_UNAVAILABLE, "a living process keeps its run");
	check(strstr(error_message(), "shift 1") && strstr(error_message(), owner.identity.host),
		"the message names the owner");
	struct claim other = owner;
	other.started--;
	check_status(judge(&run, &other, "-", 0), 0, "a process id that is used again keeps nothing");
	other = owner;
	snprintf(other.boot, sizeof other.boot, "another-boot");
	check_status(judge(&run, &other, "-", 0), 0, "nor does a process from before the boot");
	other = owner;
	snprintf(other.namespace, sizeof other.namespace, "pid:[1]");
	check_status(judge(&run, &other, "-", 0), STATUS_UNAVAILABLE,
		"a process of another container is not judged");
	other = owner;
	snprintf(other.identity.host, sizeof other.identity.host, "elsewhere");
	check_status(judge(&run, &other, "-", 0), STATUS_UNAVAILABLE, "nor is one of another host");
	check(strstr(error_message(), "--take-over") && strstr(error_message(), "elsewhere"),
		"the message says what to do");
	struct shift_identity identity;
	shift_identity(&identity);
	check_status(shift_check(&run, &identity, true), 0, "which is taken as said");
	kill(sleeper, SIGKILL);
	siginfo_t information;
	waitid(P_PID, (id_t)sleeper, &information, WEXITED | WNOWAIT);
	check_status(judge(&run, &owner, "-", 0), 0,
		"a process that has ended, not yet waited for, keeps nothing");
	waitpid(sleeper, NULL, 0);
	check_status(judge(&run, &owner, "-", 0), 0, "nor does one that is gone");
	run_close(&run);
	free(path);
}

static void test_jobs(void)
{
	char *path = fixture_make("jobs", NULL);
	struct run run;
	struct claim owner;
	run_open(path, &run);
	claim_of(&owner, "100", 1, 1);
	snprintf(owner.identity.host, sizeof owner.identity.host, "elsewhere");
	fake_squeue("echo asked >>$0.asked; echo RUNNING");
	check_status(judge(&run, &owner, "100", 2), 0, "a later life of the same job goes on");
	check_status(judge(&run, &owner, "100", 0), STATUS_FENCED, "an earlier one does not");
	check_status(judge(&run, &owner, "100", 1), STATUS_UNAVAILABLE,
		"the same life on another host cannot be judged");
	char *asked = path_join(check_scratch(), "bin/squeue.asked");
	check(!file_exists(asked), "for all that squeue is not asked");
	check_status(
		judge(&run, &owner, "101", 0), STATUS_UNAVAILABLE, "another job waits while the owner runs");
	check(file_exists(asked), "squeue was asked");
	static const struct {
		const char *body;
		int status;
		const char *name;
	} answers[] = {
		{"exit 0", 0, "a job that squeue does not list is gone"},
		{"echo COMPLETED", 0, "a completed job is gone"},
		{"echo PENDING", 0, "a pending job does not run"},
		{"printf 'PENDING\\nCOMPLETING\\n'", STATUS_UNAVAILABLE, "a completing one still does"},
		{"echo SUSPENDED", STATUS_UNAVAILABLE, "a suspended one too"},
		{"echo NEW_STATE", STATUS_UNAVAILABLE, "an unknown state counts as running"},
		{"echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", 0,
			"a forgotten job is gone"},
		{"exit 127", STATUS_UNAVAILABLE, "without squeue the owner counts as running"},
		{"yes", STATUS_UNAVAILABLE, "an endless answer is no answer"},
	};
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
		fake_squeue(answers[i].body);
		check_status(judge(&run, &owner, "101", 0), answers[i].status, answers[i].name);
	}
	fake_squeue("test -e $0.once && exec echo COMPLETED; touch $0.once; echo 'Unable to contact slurm "
		    "controller' >&2; exit 1");
	check_status(
		judge(&run, &owner, "101", 0), 0, "a controller that is down for a moment is asked again");
	snprintf(owner.identity.job, sizeof owner.identity.job, "bash-elsewhere-7");
	check_status(judge(&run, &owner, "101", 0), STATUS_UNAVAILABLE,
		"a script's life elsewhere cannot be judged");
	struct shift_row row = {.shift = 1, .event = "end", .job = "100"};
	shift_row_add(&run, &row);
	check_status(judge(&run, &owner, "101", 0), 0, "an end row frees the run");
	char *claim = run_path(&run, "shifts/2");
	write_text(claim, "job 1\nrestart x\n");
	struct shift_identity identity;
	shift_identity(&identity);
	check_status(shift_check(&run, &identity, false), STATUS_UNAVAILABLE,
		"a damaged claim is nobody's to overrule");
	check_status(shift_check(&run, &identity, true), 0, "but --take-over does");
	free(claim);
	free(asked);
	run_close(&run);
	free(path);
}

/* ---- claiming ---- */

static void test_claim(void)
{
	char *path = fixture_make("claim", NULL);
	struct run run;
	struct shift first, second;
	struct shift_row *rows;
	size_t count;
	run_open(path, &run);
	check_status(shift_claim(&first, &run, false, 0, NULL), 0, "the first claim");
	check(first.number == 1 && !shift_fence(&first), "is number 1 and in front");
	check_status(
		shift_claim(&second, &run, false, 0, NULL), STATUS_UNAVAILABLE, "a second one is refused");
	check_status(shift_claim(&second, &run, true, 7, NULL), 0, "unless it takes over");
	check(second.number == 2 && !shift_fence(&second), "and is in front then");
	check_status(shift_fence(&first), STATUS_FENCED, "the first is fenced");
	check_status(shift_end(&second, 9, STATUS_AGAIN, "notice"), 0, "the second ends");
	shift_rows(&run, &rows, &count);
	check(count == 4 && !strcmp(rows[0].event, "start") && !strcmp(rows[1].event, "lost") &&
			rows[1].shift == 1 && !strcmp(rows[2].event, "start") && rows[2].step == 7 &&
			!strcmp(rows[3].event, "end") && rows[3].status == 75 && rows[3].step == 9 &&
			!strcmp(rows[3].reason, "notice"),
		"shifts.tsv: start, lost, start, end");
	free(rows);
	struct names names;
	char *folder = run_path(&run, "shifts"), *current = run_path(&run, "shifts/current");
	file_list(folder, &names);
	check(names.count == 3 && !strcmp(names.name[2], "current"), "nothing temporary is left in shifts/");
	names_release(&names);
	check_status(shift_claim(&first, &run, false, 9, NULL), 0, "behind an end row anybody may claim");
	unlink(current);
	check_status(shift_fence(&second), STATUS_FENCED, "without shifts/current the claims decide");
	check_status(shift_fence(&first), 0, "for the owner too");
	free(current);
	free(folder);
	run_close(&run);
	free(path);
}

/* One of several that claim at the same moment: waits for the start, claims, reports, and when all have done so looks whether it is
 * still in front. */
static int compete(const char *path, bool take_over, int go, int ready, int stay)
{
	struct run run;
	struct shift shift;
	char byte = 0;
	int status = run_open(path, &run);
	if (read(go, &byte, 1) < 0)
		return 1;
	if (!status)
		status = shift_claim(&shift, &run, take_over, 0, NULL);
	if (write(ready, &byte, 1) != 1 || read(stay, &byte, 1) < 0)
		return 1;
	if (!status)
		status = shift_fence(&shift);
	run_close(&run);
	return status;
}

enum { RACERS = 8, ROUNDS = 10 };

/* One race; the number of wrong outcomes: each is "owner", "refused" or "fenced", one is "owner". */
static int race_once(char *path, bool take_over)
{
	int go[2], ready[2], stay[2], owners = 0, bad = 0;
	pid_t child[RACERS];
	char byte;
	if (pipe(go) || pipe(ready) || pipe(stay))
		return 1;
	for (int i = 0; i < RACERS; i++) {
		child[i] = fork();
		if (!child[i]) {
			close(go[1]);
			close(stay[1]);
			int code = compete(path, take_over, go[0], ready[1], stay[0]);
			free(path);
			_exit(code);
		}
	}
	close(go[1]); /* the start: all read the end of file */
	for (int i = 0; i < RACERS; i++)
		bad += read(ready[0], &byte, 1) != 1;
	close(stay[1]);
	for (int i = 0; i < RACERS; i++) {
		int status;
		waitpid(child[i], &status, 0);
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		owners += code == 0;
		bad += code != 0 && code != STATUS_UNAVAILABLE && code != STATUS_FENCED;
	}
	close(go[0]);
	close(ready[0]);
	close(ready[1]);
	close(stay[0]);
	return bad + (owners != 1);
}

static void race(const char *name, bool take_over)
{
	int bad = 0, claims = 0;
	for (int round = 0; round < ROUNDS; round++) {
		char folder[64];
		struct run run;
		int64_t highest = 0;
		snprintf(folder, sizeof folder, "race-%d-%d", take_over, round);
		char *path = fixture_make(folder, NULL);
		bad += race_once(path, take_over);
		bad += run_open(path, &run) || claims_highest(&run, &highest);
		claims += (int)highest;
		run_close(&run);
		free(path);
	}
	check_report(!bad && claims == (take_over ? ROUNDS * RACERS : ROUNDS), name,
		"%d wrong outcomes, %d claims", bad, claims);
}

/* ---- a zombie ---- */

static void test_zombie(void)
{
	char *path = fixture_make("zombie", NULL);
	struct run run;
	struct shift zombie, owner;
	struct logs *logs, *owners_logs;
	struct log_lengths lengths = {0};
	struct train_state state = {.step = 10};
	struct fixture_weights weights;
	run_open(path, &run);
	snprintf(state.config_id, sizeof state.config_id, "%s", config_id(run.config));
	fixture_weights(&weights, 10);
	shift_claim(&zombie, &run, false, 0, NULL);
	logs_open(&zombie, NULL, 1, "", &logs);
	logs_row(logs, LOG_STEP, "1\t0\t4\t0.5\t1\t0.1");
	check_status(logs_flush(logs), 0, "an owner flushes its logs");
	shift_claim(&owner, &run, true, 0, NULL);
	logs_row(logs, LOG_STEP, "2\t0\t8\t0.5\t1\t0.1");
	check_status(logs_flush(logs), STATUS_FENCED, "a zombie does not flush");
	check_status(logs_sync(logs, &lengths), STATUS_FENCED, "nor sync");
	check_status(
		checkpoint_save(&zombie, &state, &weights.content, NULL, NULL), STATUS_FENCED, "nor save");
	check_status(
		checkpoint_save_weights(&zombie, 10, &weights.content), STATUS_FENCED, "nor keep weights");
	check_status(checkpoint_save_phase(&zombie, &state), STATUS_FENCED, "nor replace a phase file");
	check_status(checkpoint_prune(&zombie, 1), STATUS_FENCED, "nor remove anything");
	check_status(checkpoint_best_write(&zombie, 10, "rmse", 1, NULL, NULL), STATUS_FENCED,
		"nor name the best");
	struct logs *third = NULL;
	check(logs_open(&zombie, NULL, 1, "", &third) == STATUS_FENCED && !third, "nor cut logs");
	check_status(logs_text(logs, "I was replaced"), 0, "it may say why it leaves");

	/* The owner cuts the logs; a line that was on its way lands in the file that is no longer there. */
	char *step = run_path(&run, "log/step.tsv");
	int descriptor = open(step, O_WRONLY | O_APPEND);
	check_status(logs_open(&owner, NULL, 1, "", &owners_logs), 0, "the owner opens its logs");
	check(write(descriptor, "late\n", 5) == 5, "a late line of the zombie");
	logs_row(owners_logs, LOG_STEP, "1\t0\t4\t0.5\t1\t0.1");
	check_status(logs_sync(owners_logs, &state.logs), 0, "does not reach the owner's file");
	close(descriptor);

	/* A publish that passed the fence before the claim: it names an event file that the owner has removed. */
	struct shift late = zombie;
	late.number = owner.number;
	struct train_state theirs = state;
	theirs.shift = zombie.number;
	theirs.logs = (struct log_lengths){0};
	log_lengths_add(&theirs.logs, "events.out.tfevents.1.zombie", 100);
	check_status(checkpoint_save(&late, &theirs, &weights.content, NULL, NULL), 0,
		"a late publish of the zombie");
	check_status(checkpoint_save(&owner, &state, &weights.content, NULL, NULL), 0,
		"the owner saves the same step");
	check_status(checkpoint_save(&late, &theirs, &weights.content, NULL, NULL), 0, "the zombie again");
	struct checkpoint checkpoint;
	bool found;
	check(!checkpoint_resume(&run, &checkpoint, &found) && found &&
			checkpoint.state.shift == state.shift && fixture_equal(&checkpoint, 10),
		"it is the owner's that a resume finds");
	checkpoint_release(&checkpoint);
	logs_discard(logs);
	check_status(logs_close(owners_logs), 0, "the owner closes its logs");
	free(step);
	log_lengths_release(&lengths);
	log_lengths_release(&theirs.logs);
	log_lengths_release(&state.logs);
	run_close(&run);
	free(path);
}

/* ---- the small files ---- */

static void test_small_files(void)
{
	char *path = fixture_make("small", NULL);
	struct run run;
	struct run_done done = {.step = 500, .digest = "0011aabb", .job = "12_3", .restart = 2}, back;
	struct run_platform platform = {.threads = 4,
				    .isa = "avx2",
				    .precision = "f32",
				    .device = "cpu",
				    .model = "Some \"CPU\" \\ 3 GHz",
				    .libraries = "zlib 1.2",
				    .program = "abc"},
			    again;
	bool found;
	run_open(path, &run);
	check(!run_done_read(&run, &found, &back) && !found, "not done yet");
	check_status(run_done_write(&run, &done), 0, "done is written");
	check(!run_done_read(&run, &found, &back) && found && back.step == 500 &&
			!strcmp(back.digest, "0011aabb") && !strcmp(back.job, "12_3") && back.restart == 2,
		"and reads back");
	char *file = run_path(&run, "done");
	write_text(file, "step 5\n");
	check_status(run_done_read(&run, &found, &back), STATUS_DATA, "half a done file is refused");
	check(!run_done_remove(&run) && !run_done_remove(&run) && !file_exists(file), "done is removed");
	free(file);
	check(!run_platform_read(&run, &found, &again) && !found, "no platform yet");
	check_status(run_platform_write(&run, &platform), 0, "platform.cfg is written");
	check(!run_platform_read(&run, &found, &again) && found && !memcmp(&platform, &again, sizeof again),
		"and reads back");
	file = run_path(&run, "platform.cfg");
	write_text(file, "format = 2;\nthreads = 1;\n");
	check_status(
		run_platform_read(&run, &found, &again), STATUS_CONFIG, "a newer platform.cfg is refused");
	free(file);
	check(!run_stop_asked(&run), "no stop file");
	file = run_path(&run, "stop");
	write_text(file, "");
	check(run_stop_asked(&run) && !run_stop_remove(&run) && !run_stop_asked(&run),
		"a stop file is seen and removed");
	free(file);

	char host[256] = "", *table, *copy = NULL;
	gethostname(host, sizeof host - 1);
	file = run_path(&run, "staged");
	file_make_directory(file);
	free(file);
	table = run_path(&run, "staged/%s.tsv", host);
	struct text text = {0};
	text_format(&text,
		"#name\tpath\tkey\tsource\tmore\na\t/nowhere\tk1\t/s\nb\t%s\tk2\t/s t\t-\nc\t%s\tk3\t/s",
		path, path);
	write_text(table, text.data);
	check(!run_staged(&run, "b", "/s t", &copy) && copy && !strcmp(copy, path), "a staged copy is found");
	free(copy);
	check(!run_staged(&run, "b", "/s", &copy) && !copy, "one of another source is not");
	check(!run_staged(&run, "a", "/s", &copy) && !copy, "one that is gone is not");
	check(!run_staged(&run, "c", "/s", &copy) && !copy, "a torn row is not");
	text_release(&text);
	free(table);
	run_close(&run);
	check_status(run_open("/nowhere/run", &run), STATUS_NO_INPUT, "a run that is not there");
	free(path);
}

int main(int argc, char **argv)
{
	(void)argc;
	error_program(argv[0]);
	fixture_quiet();
	fixture_fast();
	clear_environment();
	use_fake_squeue();
	test_identity();
	test_rows();
	test_processes();
	test_jobs();
	test_claim();
	race("of processes that claim together one owns the run", false);
	race("of processes that take over together the last one owns it", true);
	test_zombie();
	test_small_files();
	return check_summary();
}
