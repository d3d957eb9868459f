/*
 * core_config.h - the comparability hash of mlpstorage, "core-config-v1": two runs with the same
 * hash have run the same workload. Also writes a workload's values as JSON.
 */
#ifndef SHOAL_REPORT_CORE_CONFIG_H
#define SHOAL_REPORT_CORE_CONFIG_H

#include "base/json.h"
#include "workload/yaml.h"

/* The most keys of a workload that are hashed; upstream's files have about 30. */
#define CORE_CONFIG_KEYS_MAX 128

#define CORE_CONFIG_KEY_BYTES 192

struct core_config {
	char hash[17]; /* hexadecimal; "unknown" if no key is hashed */
	size_t nr;
	struct core_config_key {
		char name[CORE_CONFIG_KEY_BYTES];
		const struct yaml_node *value; /* lent */
	} keys[CORE_CONFIG_KEYS_MAX];          /* sorted */
};

/* The hash of a training workload's @parameters. -E2BIG: too many keys, or one is too long. */
int core_config_compute(const struct yaml_node *parameters, struct core_config *ret_core,
			struct shoal_err *err) MUST_USE;

/*
 * The class, "retinanet-b200-A", that upstream's table has for runs of a training workload with
 * this hash under an edition of the rules ("3.0"). NULL: none, so the checker does not recognise
 * the workload.
 */
const char *core_config_class(const char *edition, const char *model, const char *accelerator,
			      const char *hash);

/* Whether upstream's table has this edition of the rules. */
bool core_config_edition_known(const char *edition);

/* Write a tree as JSON, with numbers and booleans as such. */
void core_config_put_json(struct json *j, const char *key, const struct yaml_node *node);

#endif
