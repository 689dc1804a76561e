/* Leaving in time (train/leave.h), with stand-ins for squeue and scontrol. Signals are seen once a process, so each case has its own. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/signals.h"
#include "base/text.h"
#include "check.h"
#include "train/leave.h"

static char directory[] = "/tmp/leave.XXXXXX";

/* A program of that name in front of PATH, made of one line of shell. */
static void stand_in(const char *name, const char *line)
{
	struct text path = {0}, script = {0};
	text_format(&path, "%s/%s", directory, name);
	text_format(&script, "#!/bin/sh\n%s\n", line);
	if (file_publish(path.data, script.data, script.length) || chmod(path.data, 0755))
		check(false, "a stand-in is made");
	text_release(&path);
	text_release(&script);
}

/* squeue that gives an end so many seconds from now. */
static void squeue_says(double seconds)
{
	struct text line = {0};
	text_format(&line, "echo %.0f", clock_wall() + seconds);
	stand_in("squeue", line.data);
	text_release(&line);
}

static bool run_case(bool (*test)(void))
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		signals_block();
		_exit(signals_install() || !test());
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

static bool near(double value, double expected)
{
	bool good = fabs(value - expected) < 2.5 || (isinf(value) && value == expected);
	if (!good)
		printf("# %g where %g was expected\n", value, expected);
	return good;
}

static struct leave leave;

static void start(double exit_after, double until, double notice, const char *job)
{
	leave_init(&leave, &(struct leave_options){exit_after, until, notice, job});
}

static bool estimate_of_saves(void)
{
	start(-1, 0, 60, "-");
	bool none = leave_save_estimate(&leave, 1000) == 0;
	leave.probe = 100;
	bool probed = leave_save_estimate(&leave, 1000) == 10;
	leave_saved(&leave, 1000, 4);
	bool first = leave_save_estimate(&leave, 1000) == 4;
	leave_saved(&leave, 1000, 1);
	leave_saved(&leave, 1000, 2);
	bool slowest = leave_save_estimate(&leave, 2000) == 8;
	leave_saved(&leave, 1000, 1);
	return none && probed && first && slowest && leave_save_estimate(&leave, 1000) == 2;
}

static bool probe_measures(void)
{
	struct names names = {0};
	start(-1, 0, 60, "-");
	bool good = !leave_probe(&leave, directory) && leave.probe > 1e5 &&
		    leave_save_estimate(&leave, 1 << 20) > 0 && !file_list(directory, &names);
	for (size_t i = 0; i < names.count; i++)
		good = good && !strstr(names.name[i], "probe");
	names_release(&names);
	return good && leave_probe(&leave, "/nonexistent") != 0;
}

static bool clock_rules(void)
{
	start(1000, 0, 60, "-");
	bool good = near(leave_left(&leave), 1000) && leave_now(&leave, 0) == LEAVE_STAY;
	leave_unit(&leave, 400);
	for (int i = 1; i < LEAVE_RECENT; i++)
		leave_unit(&leave, 1);
	leave_saved(&leave, 1000, 80); /* 2 x (400 + 80) + 10 = 970 */
	good = good && leave_now(&leave, 1000) == LEAVE_STAY && leave_now(&leave, 1300) == LEAVE_CLOCK;
	leave_unit(&leave, 1); /* the slowest one is forgotten */
	good = good && leave_now(&leave, 1300) == LEAVE_STAY;
	return good && leave_can_save(&leave, 1000) && !leave_can_save(&leave, 10000);
}

static bool earliest_end_rules(void)
{
	squeue_says(5000);
	start(-1, 0, 60, "12");
	bool good = near(leave_left(&leave), 5000);
	start(3000, clock_wall() + 2000, 60, "12");
	good = good && near(leave_left(&leave), 2000);
	start(3000, clock_wall() + 9000, 60, "12");
	good = good && near(leave_left(&leave), 3000 - clock_seconds());
	start(-1, clock_wall() - 10, 60, "12");
	return good && leave_now(&leave, 0) == LEAVE_CLOCK;
}

static bool unknown_end(void)
{
	stand_in("squeue", "exit 1");
	start(-1, 0, 30, "12");
	bool good = isinf(leave_left(&leave)) && leave_now(&leave, 0) == LEAVE_STAY;
	leave_saved(&leave, 1000, 10);
	raise(SIGUSR2);
	return good && leave_now(&leave, 1000) == LEAVE_NOTICE && leave_can_save(&leave, 1900) &&
	       !leave_can_save(&leave, 2100);
}

static bool notice_with_known_end(void)
{
	squeue_says(500);
	start(-1, 0, 30, "12");
	leave_saved(&leave, 1000, 10);
	raise(SIGUSR2);
	return leave_now(&leave, 1000) == LEAVE_NOTICE && leave_can_save(&leave, 30000) &&
	       !leave_can_save(&leave, 34000);
}

/* KillWait is 40 s less 5; the end that squeue gives has not moved. */
static bool term(void)
{
	squeue_says(5000);
	start(-1, 0, 60, "12");
	leave_saved(&leave, 1000, 10);
	raise(SIGTERM);
	return near(leave.kill_wait, 35) && leave_now(&leave, 0) == LEAVE_NOTICE &&
	       leave_can_save(&leave, 2200) && !leave_can_save(&leave, 2400);
}

static bool term_with_grace(void)
{
	squeue_says(5000);
	start(-1, 0, 60, "12");
	leave_saved(&leave, 1000, 10);
	raise(SIGTERM);
	squeue_says(120);
	return leave_can_save(&leave, 7800) && !leave_can_save(&leave, 8200);
}

/* The controller does not answer: the question costs a part of KillWait, and what it cost is counted. */
static bool term_without_answer(void)
{
	squeue_says(5000);
	start(-1, 0, 60, "12");
	leave_saved(&leave, 1000, 10);
	stand_in("squeue", "exec sleep 60");
	double before = clock_seconds();
	raise(SIGTERM);
	bool good = leave_can_save(&leave, 1900); /* 28.5 s of 35 less 5 */
	double took = clock_seconds() - before;
	return good && took < 7 && near(took, 5);
}

static bool kill_wait(const char *shown, double expected)
{
	struct text line = {0};
	stand_in("squeue", "exit 1");
	text_format(&line, "printf 'A = 1\\n%s\\nZ = 2\\n'", shown);
	stand_in("scontrol", line.data);
	text_release(&line);
	start(-1, 0, 60, "12");
	return leave.kill_wait == expected;
}

static bool kill_waits(void)
{
	return kill_wait("KillWait                = 30 sec", 25) && kill_wait("KillWait = 8 sec", 4) &&
	       kill_wait("KillWait = often", 25) && kill_wait("NoKillWait = 3", 25);
}

int main(void)
{
	struct text path = {0};
	if (!mkdtemp(directory))
		return 1;
	text_format(&path, "%s:%s", directory, getenv("PATH"));
	setenv("PATH", path.data, 1);
	stand_in("squeue", "exit 1");
	stand_in("scontrol", "printf 'A = 1\\nKillWait                = 40 sec\\n'");
	error_program("leave");
	check(run_case(estimate_of_saves), "a save takes its bytes at the slowest of the last three rates");
	check(run_case(probe_measures), "a probe gives the rate before the first save and leaves nothing");
	check(run_case(clock_rules), "2 x (slowest recent unit + save) + 10 s before the end");
	check(run_case(earliest_end_rules), "the earliest of SLURM's end, --until and --exit-after");
	check(run_case(unknown_end), "USR2 leaves the notice where the end is unknown");
	check(run_case(notice_with_known_end), "USR2 leaves what remains where the end is known");
	check(run_case(term), "TERM leaves KillWait less 5 s");
	check(run_case(term_with_grace), "TERM leaves the time to an end that has moved");
	check(run_case(term_without_answer), "a controller that is silent after TERM costs 5 s, no more");
	check(run_case(kill_waits), "KillWait among the lines of scontrol");
	text_release(&path);
	file_remove_tree(directory);
	return check_summary();
}
