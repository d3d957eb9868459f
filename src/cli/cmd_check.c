/* shoal check: what mlpstorage's submission checker would refuse. */
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "report/check.h"

enum rules { RULES_3_0_26, RULES_2026_09 };

struct cmd_check_arguments {
	enum rules rules;
	bool json;
};

static void print_finding(void *self, const char *rule, const char *path, const char *words)
{
	const struct cmd_check_arguments *a = self;
	struct json j;

	if (!a->json) {
		struct cli_text t;
		FILE *out = cli_text_open(&t);

		if (!out)
			return;
		fprintf(out, "%s ", rule);
		cli_put_plain(out, path, strlen(path));
		fputs(": ", out);
		cli_put_plain(out, words, strlen(words));
		fputc('\n', out);
		cli_text_print(&t, out, true, strlen(rule) + 1);
		return;
	}
	j = cli_json();
	json_open_object(&j, NULL);
	json_string(&j, "rule", rule);
	json_string(&j, "path", path);
	json_string(&j, "why", words);
	json_close_object(&j);
}

static int cmd_check_run(void *arguments, int nr, char **words)
{
	const struct cmd_check_arguments *a = arguments;
	struct shoal_err err = { "" };
	size_t len = strlen(words[0]);
	int found;

	(void)nr;
	while (len > 1 && words[0][len - 1] == '/')
		words[0][--len] = '\0';
	found = report_check(words[0], a->rules == RULES_2026_09, print_finding, arguments, &err);
	if (found < 0)
		return cli_finish("check", cli_fail("check", "%s", cli_words("check", &err)));
	if (found > 0)
		return cli_finish("check",
				  cli_fail("check", "the checker would refuse '%s': %d finding%s",
					   words[0], found, plural((uint64_t)found)));
	if (!a->json)
		printf("nothing that the checker would refuse\n");
	return cli_finish("check", CLI_OK);
}

static const char *const rules_words[] = { "3.0.26", "2026-09", NULL };

static const struct cli_option options[] = {
	CLI_WORD("rules", "RULES", offsetof(struct cmd_check_arguments, rules), rules_words,
		 "3.0.26: of that release of mlpstorage (default); 2026-09: newer ones, which "
		 "require leaves of datasize and code in code-images, and check provenance.json"),
	CLI_FLAG(0, "json", offsetof(struct cmd_check_arguments, json),
		 "print each finding as a line of JSON"),
	CLI_END,
};

const struct cli_command cmd_check = {
	.name = "check",
	.summary = "print what mlpstorage's submission checker would refuse",
	.usage = "RESULTS [--rules RULES]",
	.about =
		"Check a tree of results, made by 'shoal run --results-layout mlpstorage' or by "
		"mlpstorage, by the rules of mlpstorage's submission checker for training. Prints one "
		"line per finding: the number of the rule, the place, and why; and exits with 1 if "
		"there is any. The schema of systems/NAME.yaml is checked in part only, checkpointing "
		"not at all. Results of Shoal are no submission to MLPerf even if there is no finding.",
	.sections = { { .options = options } },
	.min = 1,
	.max = 1,
	.give = "give the top directory of one tree of results",
	.size = sizeof(struct cmd_check_arguments),
	.run = cmd_check_run,
};
