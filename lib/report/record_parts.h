/* For the files that fill a record: each takes one part of a run directory. */
#ifndef NIGHTSHIFT_REPORT_RECORD_PARTS_H
#define NIGHTSHIFT_REPORT_RECORD_PARTS_H

#include "report/record.h"

/* Notes the present error message as trouble and clears it; always STATUS_OK unless memory is short. */
int record_trouble(struct record *record);
/* Each: STATUS_OK also where the part is missing or damaged. */
/* Step, epoch and time. `brief`: their last rows alone. */
int record_read_logs(struct record *record, bool brief);
int record_read_validation(struct record *record);
int record_read_scores(struct record *record);
int record_read_checkpoints(struct record *record, bool verify);
/* From all of these. */
int record_judge(struct record *record);
void record_release_scores(struct record_scores *scores);
struct tsv;
/* Notes what a table left out; `path` as it is called. */
int record_check_table(struct record *record, const struct tsv *table, const char *path);

#endif
