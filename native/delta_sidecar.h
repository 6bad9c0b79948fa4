/* Delta Sidecar: the live files of a Delta table, listed through its index.
 *
 * Every function may be called from any thread, and by many threads at once; a scan or a stream is used by one thread
 * at a time, and may move between threads. A long listing without a limit is read by a few threads (the option
 * `threads`), which end with it: at its last file, at an error, or when it is stopped or closed; a child process must leave a
 * listing alone that was open at the fork. For tables in an object store the library starts one thread more, which it
 * keeps, with a few helpers to look up names: fork before its first use there, not after. All its threads block signals,
 * so that the host's handlers run on the host's threads. It installs no signal handler and changes no locale.
 *
 * Strings are UTF-8 and end in NUL. Options are a JSON object, or NULL; all of them may be left out:
 *
 *   predicate        SQL text ("ts >= '2026-02-10T22:00:00Z' AND region IN ('eu', 'us')") or a tree
 *                    ({"and": [{"column": "ts", "op": ">=", "value": "…"}, {"region": ["eu", "us"]}]})
 *   columns          of path, size, modification_time, partition_values, deletion_vector, num_records; all if left out
 *   limit            the largest number of files
 *   version          the version to read; the newest if left out
 *   storage_options  an object: names as in Python ({"aws_region": "…", "azure_storage_account_key": "…"})
 *   memory_budget    bytes of an index that are read ahead; 64 MiB if left out
 *   threads          the threads that read a listing without a limit, the caller's included: from 1 (no other is
 *                    started) to 64. If left out: one for each core, 4 at most, and only where there is much to read;
 *                    1 where the process may address only so much memory (RLIMIT_AS), which threads take much of
 *   fallback         "none" (the default): without a usable index the answer is DELTA_NO_INDEX at once.
 *                    "log": the log and its checkpoints serve instead
 *
 * Files come newest first: those of commits after the index, then those of the index by its sort key. A predicate
 * leaves out files that cannot hold a matching row; it does not filter rows.
 *
 * No panic crosses this interface. If the process has no memory left, it ends, as with most programs. A thread that
 * calls needs a stack of 128 KiB; a predicate that is nested deeply takes the most of it. */

#ifndef DELTA_SIDECAR_H
#define DELTA_SIDECAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DELTA_ABI_VERSION 1

/* What a call answers. */
#define DELTA_OK 0
#define DELTA_STOPPED 1       /* the callback asked to stop */
#define DELTA_NO_INDEX 2      /* no usable index: go on with another reader, or with the fallback "log" */
#define DELTA_NO_TABLE 3
#define DELTA_NO_VERSION 4    /* the table does not have the version asked for */
#define DELTA_BAD_ARGUMENT 5  /* NULL, not UTF-8, options that are not JSON, an unknown option or column */
#define DELTA_BAD_PREDICATE 6 /* it cannot be parsed, or does not fit the table's columns */
#define DELTA_UNSUPPORTED 7   /* the table needs a feature that this reader does not know */
#define DELTA_CORRUPT 8       /* a broken log; or an index that turned out to be damaged after files were given */
#define DELTA_IO 9
#define DELTA_CREDENTIALS 10  /* the store or the disk refused access */
#define DELTA_INTERNAL 11     /* a mistake in this library */

typedef struct delta_partition_value {
  const char *name;  /* the column's physical name */
  const char *value; /* the text of the log; NULL is null */
} delta_partition_value;

typedef struct delta_deletion_vector {
  const char *storage_type;
  const char *path_or_inline_dv;
  int32_t has_offset;
  int32_t offset;
  int32_t size_in_bytes;
  int64_t cardinality; /* -1: unknown */
} delta_deletion_vector;

/* A file. It and all it points to are valid until the callback returns, or until the scan's next call. */
typedef struct delta_file {
  const char *path;          /* as in the log: relative to the table or absolute, percent-encoded */
  const char *uri;           /* where it is: a local path, or a decoded URI */
  int64_t size;              /* -1: unknown */
  int64_t modification_time; /* milliseconds since 1970; -1: unknown */
  int64_t records;           /* rows, deleted ones included; -1: unknown */
  const delta_partition_value *partition_values;
  size_t partition_count;
  const delta_deletion_vector *deletion_vector; /* NULL: none */
} delta_file;

/* Zero stops the listing. It may call this library; it must return normally (no longjmp, no exception). */
typedef int32_t (*delta_file_callback)(const delta_file *file, void *user);

/* One call for each file. */
int32_t delta_scan_lazy(const char *table, const char *options_json, delta_file_callback callback, void *user);

/* The same, file by file at the caller's pace: `*file` is NULL at the end. After an error, each
   later call gives the same error: open the scan again. Closing a scan ends its reading. */
typedef struct delta_scan delta_scan;
int32_t delta_scan_open(const char *table, const char *options_json, delta_scan **scan);
int32_t delta_scan_next(delta_scan *scan, const delta_file **file);
int64_t delta_scan_version(const delta_scan *scan);   /* the version of the table that is listed */
uint64_t delta_scan_requests(const delta_scan *scan); /* requests to the store so far, or files read on a disk */
void delta_scan_close(delta_scan *scan);

/* The same as Arrow record batches (the Arrow C stream interface). `*stream` is written over; its own release frees it,
 * and stops the reading. Errors while it is read are the stream's. */
struct ArrowArrayStream;
int32_t delta_scan_stream(const char *table, const char *options_json, struct ArrowArrayStream *stream);

/* The message of the calling thread's last call: one line, empty if the call did well; valid until its next call.
 * The copy is the caller's, to be freed by delta_free_string. */
const char *delta_last_error(void);
char *delta_last_error_copy(void);
void delta_free_string(char *text);

const char *delta_version(void);
int32_t delta_abi_version(void);

#ifdef __cplusplus
}
#endif

#endif
