/*
 * Errors: every function that can fail returns a status (0 is success) and leaves one message.
 *
 * The statuses are the exit statuses of all programs. A function that meets an error calls error_set() once, at the
 * place that knows what is wrong; callers may put context in front with error_prefix() and pass the status on.
 * Only main() prints (error_print()) and exits. The message is one line: place, what is wrong, what to do.
 * The message belongs to the calling thread.
 */
#ifndef NIGHTSHIFT_BASE_ERROR_H
#define NIGHTSHIFT_BASE_ERROR_H

#include <stdbool.h>

enum status {
	STATUS_OK = 0,
	STATUS_FAILURE = 1,        /* anything else */
	STATUS_USAGE = 64,         /* wrong command line */
	STATUS_DATA = 65,          /* a file's content is bad */
	STATUS_NO_INPUT = 66,      /* an input is missing */
	STATUS_UNAVAILABLE = 69,   /* device, service or run is not there or in use */
	STATUS_FENCED = 70,        /* this shift must not go on */
	STATUS_CANNOT_CREATE = 73, /* cannot create, no space */
	STATUS_IO = 74,            /* read or write error */
	STATUS_AGAIN = 75,         /* stopped in time, requeue me */
	STATUS_PERMISSION = 77,
	STATUS_CONFIG = 78
};

/* Name used in front of every line on stderr; called first thing in main(). `argument_zero` may hold a path. */
void error_program(const char *argument_zero);
const char *error_program_name(void);
/* Lines of a rank above 0 bear its number: "program: rank 3: ...". */
void error_rank(int rank);

/* Sets the message (replacing an older one) and returns `status`. */
int error_set(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, then ": " and the text of errno. `status` 0 chooses by errno: ENOENT 66, EACCES/EPERM/EROFS 77,
 * ENOSPC/EDQUOT/EFBIG 73, anything else 74. */
int error_errno(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " in front of the present message; returns the present status. */
int error_prefix(const char *format, ...) __attribute__((format(printf, 1, 2)));

int error_status(void);
const char *error_message(void); /* "" when there is none; valid until the next call in this thread */
void error_clear(void);

/* "program: message\n" to stderr in one write; control characters replaced. Returns `status`, for `return error_print(s)`. */
int error_print(int status);
/* "program: warning: ...\n" and "program: ...\n" to stderr, one write each. */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Every note, warning and printed error is handed to this function too (the trainer's train.log), by whichever thread prints it, one
 * at a time. It must not print. NULL: none; on return no thread is in the former one any more. */
void error_tee(void (*line)(const char *text, void *context), void *context);
/* True while a line that will be redrawn stands on the terminal: what is printed next wipes it first. */
void error_redrawn_line(bool stands);

/* Called before any file is opened. Where descriptor 0, 1 or 2 is closed ("2>&-"), something that can be neither read nor
 * written by the program takes the place, so that no file gets the number and messages end up in it. A write beyond the limit on
 * file sizes ("ulimit -f") is an error like any other instead of the end of the process. */
void guard_output(void);
/* Flushes and closes stdout; a full disk or closed pipe becomes an error instead of silence. Last call of main():
 * returns `status`, or STATUS_IO when stdout could not be written. */
int close_stdout(int status);

#endif
