/* native TABLE OPTIONS lazy|stream CALLS: for each call its microseconds, those of the processor and its files, then the
 * peak memory in KB before the first call and at the end. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "delta_sidecar.h"

struct ArrowSchema;
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
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

static int32_t count(const delta_file *file, void *user) {
  *(int64_t *)user += file->path != NULL;
  return 1;
}

static int32_t stream(const char *table, const char *options, int64_t *files) {
  struct ArrowArrayStream stream;
  int32_t code = delta_scan_stream(table, options, &stream);
  if (code != DELTA_OK) return code;
  for (;;) {
    struct ArrowArray batch;
    if (stream.get_next(&stream, &batch)) {
      code = DELTA_INTERNAL;
      break;
    }
    if (!batch.release) break;
    *files += batch.length;
    batch.release(&batch);
  }
  stream.release(&stream);
  return code;
}

static int64_t micros(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* Of this program alone: ru_maxrss would begin with the peak of the process that started it. */
static long peak(void) {
  char line[256];
  long found = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &found);
  if (status) fclose(status);
  return found;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  long before = peak();
  for (int call = 0; call < atoi(argv[4]); call++) {
    int64_t files = 0, began = micros(CLOCK_MONOTONIC), busy = micros(CLOCK_PROCESS_CPUTIME_ID);
    int32_t code = strcmp(argv[3], "lazy") ? stream(argv[1], argv[2], &files) : delta_scan_lazy(argv[1], argv[2], count, &files);
    if (code != DELTA_OK) {
      fprintf(stderr, "error %" PRId32 ": %s\n", code, delta_last_error());
      return 1;
    }
    int64_t whole = micros(CLOCK_MONOTONIC) - began;
    printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", whole, micros(CLOCK_PROCESS_CPUTIME_ID) - busy, files);
  }
  printf("%ld %ld\n", before, peak());
  return 0;
}
