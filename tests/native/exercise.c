/* exercise TABLE PREDICATE: every function of the library, whole listings and such that end early, and calls that fail.
 * It is run under a memory checker. */

#include <stdio.h>
#include <string.h>

#include "delta_sidecar.h"

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

static size_t texts; /* every text is read to its end, so that the checker sees all bytes */

static void read_all(const delta_file *file) {
  texts += strlen(file->path) + strlen(file->uri);
  for (size_t at = 0; at < file->partition_count; at++) {
    const char *value = file->partition_values[at].value;
    texts += strlen(file->partition_values[at].name) + (value ? strlen(value) : 0);
  }
  if (file->deletion_vector) texts += strlen(file->deletion_vector->storage_type);
}

static int32_t each(const delta_file *file, void *left) {
  read_all(file);
  return --*(int *)left != 0;
}

static int fails(int condition, const char *what) {
  if (!condition) fprintf(stderr, "%s: %s\n", what, delta_last_error());
  return !condition;
}

static int callbacks(const char *table, const char *options) {
  int all = -1, some = 3;
  return fails(delta_scan_lazy(table, options, each, &all) == DELTA_OK, "a listing") +
         fails(delta_scan_lazy(table, options, each, &some) == DELTA_STOPPED, "a listing that is stopped");
}

static int scans(const char *table, const char *options, int most) {
  delta_scan *scan;
  const delta_file *file;
  int failed = fails(delta_scan_open(table, options, &scan) == DELTA_OK, "opening a scan");
  while (!failed && most-- && !(failed = fails(delta_scan_next(scan, &file) == DELTA_OK, "the next file")) && file) read_all(file);
  failed += fails(delta_scan_version(scan) >= 0 && delta_scan_requests(scan) > 0, "a scan's version");
  delta_scan_close(scan);
  return failed;
}

static int streams(const char *table, const char *options, int most) {
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  struct ArrowArray batch;
  int failed = fails(delta_scan_stream(table, options, &stream) == DELTA_OK, "a stream");
  if (failed) return failed;
  failed += fails(stream.get_schema(&stream, &schema) == 0, "the schema of a stream");
  if (!failed) schema.release(&schema);
  while (!failed && most-- && !(failed = fails(stream.get_next(&stream, &batch) == 0, "the next batch")) && batch.release) batch.release(&batch);
  stream.release(&stream);
  return failed;
}

static int errors(const char *table) {
  int all = -1;
  struct ArrowArrayStream stream;
  delta_scan *scan;
  int failed = fails(delta_scan_lazy(table, "{", each, &all) == DELTA_BAD_ARGUMENT, "broken options");
  char *copy = delta_last_error_copy();
  failed += fails(strcmp(copy, delta_last_error()) == 0, "a copy of the message");
  delta_free_string(copy);
  failed += fails(delta_scan_lazy(table, "{\"predicate\": \"nothing = 1\"}", each, &all) == DELTA_BAD_PREDICATE, "a wrong predicate");
  failed += fails(delta_scan_stream("/nowhere", NULL, &stream) == DELTA_NO_TABLE && !stream.release, "no table");
  failed += fails(delta_scan_open(NULL, NULL, &scan) == DELTA_BAD_ARGUMENT && !scan, "no path");
  return failed;
}

int main(int argc, char **argv) {
  char some[200], threaded[200];
  const char *const options[] = {NULL, some, threaded, "{\"limit\": 7}", "{\"threads\": 3}", "{\"fallback\": \"log\", \"version\": 0}"};
  int failed = argc != 3;
  snprintf(some, sizeof some, "{\"predicate\": \"%s\"}", failed ? "" : argv[2]);
  snprintf(threaded, sizeof threaded, "{\"predicate\": \"%s\", \"threads\": 3}", failed ? "" : argv[2]);
  for (size_t at = 0; !failed && at < sizeof options / sizeof *options; at++)
    failed += callbacks(argv[1], options[at]) + scans(argv[1], options[at], -1) + scans(argv[1], options[at], 2) +
              streams(argv[1], options[at], -1) + streams(argv[1], options[at], 1);
  failed = failed || errors(argv[1]);
  printf("%s %zu\n", delta_version(), texts);
  return failed != 0;
}
