/*
 * Signals that end a shift (USR2 and TERM). INT stops a program at once as usual, unless it has called
 * signals_catch_interrupt(): then the first INT is only noted, with a line on stderr, and the second one kills. Where INT was
 * ignored at the start (a job of a script in the background) it stays so.
 *
 * signals_block() is the first line of main(): it blocks USR2 and TERM, so that nothing is lost before the handler
 * stands; threads started meanwhile inherit the blocked mask and stay out of it. signals_install() sets the handlers
 * (unconditionally: an inherited "ignore" is overridden), ignores SIGCONT, and unblocks in the calling thread. The
 * handler only sets flags. SIGPIPE stays at its default, which is right for a program whose output is read; one that
 * only reports on its work calls signals_ignore_pipe() and goes on without a reader.
 */
#ifndef NIGHTSHIFT_BASE_SIGNALS_H
#define NIGHTSHIFT_BASE_SIGNALS_H

#include <stdbool.h>

enum signals_notice {
	NOTICE_NONE = 0,
	NOTICE_USR2 = 1, /* leave in time: the time limit comes */
	NOTICE_TERM = 2  /* leave now: about KillWait remains */
};

void signals_block(void);
int signals_install(void);
int signals_catch_interrupt(void);
bool signals_interrupted(void);
void signals_ignore_pipe(void);
enum signals_notice signals_notice(void); /* the most urgent one seen */
/* A notice that another rank got `ago` seconds ago is ours, too, where we have none as urgent. */
void signals_adopt(enum signals_notice notice, double ago);
double signals_notice_time(void);         /* clock_seconds() at which that one was first noticed */

#endif
