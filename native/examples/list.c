/* Prints the files of a table as `uri size`, one a line: list TABLE [OPTIONS]
 *
 * cc -I native native/examples/list.c -L build/native/release -ldelta_sidecar -o list */

#include <inttypes.h>
#include <stdio.h>

#include "delta_sidecar.h"

static int32_t print(const delta_file *file, void *user) {
  (void)user;
  printf("%s %" PRId64 "\n", file->uri, file->size);
  return !ferror(stdout); /* a closed pipe stops the listing */
}

int main(int argc, char **argv) {
  if (argc < 2 || delta_abi_version() != DELTA_ABI_VERSION) {
    fprintf(stderr, "usage: list TABLE [OPTIONS]\n");
    return 2;
  }
  int32_t code = delta_scan_lazy(argv[1], argc > 2 ? argv[2] : NULL, print, NULL);
  if (code == DELTA_NO_INDEX) {
    fprintf(stderr, "no index, go on with another reader: %s\n", delta_last_error());
    return 3;
  }
  if (code != DELTA_OK && code != DELTA_STOPPED) {
    fprintf(stderr, "error %" PRId32 ": %s\n", code, delta_last_error());
    return 1;
  }
  return 0;
}
