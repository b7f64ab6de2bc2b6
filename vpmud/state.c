// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads and replaces the state file; see state.h. persist.c calls it. A half-written file must
 * never be read. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmud/state.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/replace.h"

int state_write(const char *path, const json_t *state, char *err, size_t errlen)
{
	char next[PATH_MAX], *text;
	int ret;

	if (snprintf(next, sizeof(next), "%s.new", path) >= (int)sizeof(next))
		return fail(-ENAMETOOLONG, err, errlen, "state file %s: name too long", path);
	/* One write: jansson would write token by token and drop the errno. */
	text = json_dumps(state, JSON_COMPACT);
	/* No fsync: pinned counts do not survive a power cut, either. */
	ret = replace_file(path, next, 0600, false, text, strlen(text));
	free(text);
	return ret ? fail(ret, err, errlen, "state file %s: cannot be written: %s", path,
			  strerror(-ret))
		   : 0;
}

int state_read(const char *path, json_t **out, char *err, size_t errlen)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), ret = 0;
	json_error_t why;
	struct stat st;

	*out = NULL;
	if (fd < 0)
		return errno == ENOENT ? 0
				       : fail(-errno, err, errlen, "state file %s: %s", path,
					      strerror(errno));
	if (fstat(fd, &st))
		ret = fail(-errno, err, errlen, "state file %s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		ret = fail(-EPERM, err, errlen,
			   "state file %s: not a file that only this user may write", path);
	else if (st.st_size > STATE_MAX)
		ret = fail(-EFBIG, err, errlen, "state file %s: longer than %u bytes", path,
			   STATE_MAX);
	if (!ret) {
		*out = json_loadfd(fd, JSON_REJECT_DUPLICATES, &why);
		if (!json_is_object(*out)) {
			json_decref(*out);
			*out = NULL;
			ret = fail(-EINVAL, err, errlen, "state file %s: no state of vpmud: %s",
				   path, why.text);
		}
	}
	close(fd);
	return ret;
}
