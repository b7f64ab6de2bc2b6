// SPDX-License-Identifier: GPL-2.0-or-later
/* What all VMs of this process share, see vm.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preload/conf.h"
#include "preload/vm.h"
#include "preload/words.h"
#include "vpmu/host.h"

struct process process;

static struct vpmu_policy process_policy[2];

void say(const char *fmt, ...)
{
	char line[512] = "vpmu-preload: ";
	size_t n = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	/* One write, so that lines of several processes do not mix. */
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}

int process_init(const char *text, bool host_intel, char *err, size_t errlen)
{
	struct conf c = {0};
	int ret = conf_parse(&c, text, err, errlen);

	if (!ret)
		ret = conf_apply(&c, host_intel, &process.guest, process_policy, err, errlen);
	if (!ret)
		process.unfit = conf_is_unfit(&c) ? words_unfit(process.guest.model, "none") : NULL;
	if (!ret)
		snprintf(process.vpmud, sizeof(process.vpmud), "%s", conf_vpmud(&c));
	process.on = !ret && !conf_is_off(&c);
	conf_fini(&c);
	return ret;
}

struct vpmu_host *process_host(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	if (!process.host)
		process.host = vpmu_host_create();
	pthread_mutex_unlock(&lock);
	return process.host;
}
