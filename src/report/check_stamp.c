/* The rules of September 2026 about provenance.json, the stamp of each leaf. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "report/check_private.h"
#include "report/core_config.h"
#include "report/layout.h"

/* ---- What upstream's reader of stamps requires ---- */

/* The keys of the stamp and of its sections, and no others. */
static const char *unknown_key(struct yaml_node *stamp, const char **ret_section)
{
	static const char *const known[][2] = {
		{ "", "schema rules_edition layout_version tool dlio storage_library core_config "
		      "stamped_at stamped_by provenance notes" },
		{ "tool", "name version git_sha code_image" },
		{ "dlio", "version source commit" },
		{ "storage_library", "name version" },
		{ "core_config", "algorithm allowlist hash keys" },
		{ "provenance",
		  "rules_edition layout_version tool dlio storage_library core_config" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		const struct yaml_node *n = *known[i][0] ? yaml_find(stamp, known[i][0]) : stamp;

		*ret_section = known[i][0];
		for (n = n ? n->child : NULL; n; n = n->next)
			if (n->key && !text_has_word(known[i][1], n->key))
				return n->key;
	}
	return NULL;
}

/* Of a JSON document: a string is quoted, and not empty. */
static const char *stamp_text(struct yaml_node *stamp, const char *path)
{
	const struct yaml_node *n = yaml_find(stamp, path);

	return n && n->kind == YAML_SCALAR && n->quoted ? n->text : "";
}

/* Texts, and what they must be. False: ret_words says which is otherwise. */
static bool has_texts(struct yaml_node *stamp, char *ret_words, size_t cap)
{
	static const char *const texts[][2] = {
		{ "schema", "mlps-run-provenance/1" },
		{ "rules_edition" },
		{ "tool.name" },
		{ "tool.version" },
		{ "tool.git_sha" },
		{ "tool.code_image" },
		{ "dlio.version" },
		{ "dlio.source" },
		{ "dlio.commit" },
		{ "storage_library.name" },
		{ "core_config.algorithm", "core-config-v1" },
		{ "core_config.allowlist" },
		{ "core_config.hash" },
		{ "stamped_at" },
		{ "stamped_by" },
	};
	static const char *const tagged[] = {
		"provenance.rules_edition", "provenance.layout_version",  "provenance.tool",
		"provenance.dlio",          "provenance.storage_library", "provenance.core_config",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *text = stamp_text(stamp, texts[i][0]);

		if (*text && (!texts[i][1] || strcmp(text, texts[i][1]) == 0))
			continue;
		snprintf(ret_words, cap, "%s is '%.60s'%s%s", texts[i][0],
			 tree_text(stamp, texts[i][0], ""),
			 texts[i][1] ? ", and must be " : ", and must be a text",
			 texts[i][1] ? texts[i][1] : "");
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(tagged); i++) {
		const char *tag = stamp_text(stamp, tagged[i]);

		if (text_has_word(
			    "runtime tool-constant package-metadata direct-url code-hash-json "
			    "uv-lock declared inferred n/a unknown",
			    tag))
			continue;
		snprintf(ret_words, cap, "%s is '%.60s', which is none of upstream's tags",
			 tagged[i], tag);
		return false;
	}
	return true;
}

static bool is_whole_number(const char *text)
{
	return *text >= '1' && *text <= '9' && text[strspn(text, "0123456789")] == '\0';
}

/* Whether a stamp is one; otherwise @ret_words says why not. */
static bool is_stamp(struct yaml_node *stamp, char *ret_words, size_t cap)
{
	const struct yaml_node *keys = yaml_find(stamp, "core_config.keys");
	const struct yaml_node *layout = yaml_find(stamp, "layout_version");
	const char *section, *key;

	if (!has_texts(stamp, ret_words, cap))
		return false;
	if (!layout || layout->quoted || !is_whole_number(tree_text(stamp, "layout_version", "")))
		return snprintf(ret_words, cap, "layout_version is not a number from 1"), false;
	if (strcmp(stamp_text(stamp, "storage_library.name"), "none") != 0 &&
	    !*stamp_text(stamp, "storage_library.version"))
		return snprintf(ret_words, cap, "storage_library has no version"), false;
	if (!keys || keys->kind != YAML_LIST)
		return snprintf(ret_words, cap, "core_config.keys is not a list"), false;
	for (keys = keys->child; keys; keys = keys->next)
		if (!keys->quoted)
			return snprintf(ret_words, cap, "core_config.keys has what is no text"),
			       false;
	if (yaml_find(stamp, "notes") && !*stamp_text(stamp, "notes"))
		return snprintf(ret_words, cap, "notes is not a text"), false;
	key = unknown_key(stamp, &section);
	if (key)
		snprintf(ret_words, cap, "%s%s%.60s is not a key of a stamp", section,
			 *section ? "." : "", key);
	return !key;
}

/* ---- The rules ---- */

static void check_edition(struct check *c, const struct check_system *s, const struct check_leaf *l,
			  struct yaml_node *stamp)
{
	const char *edition = tree_text(stamp, "rules_edition", "unknown");
	const char *hash = tree_text(stamp, "core_config.hash", "unknown");
	const char *accelerator = tree_text(l->metadata, "accelerator", "unknown");

	if (strcmp(edition, "unknown") == 0)
		return;
	if (!core_config_edition_known(edition)) {
		check_find(c, "EDN-01", l->path, "there is no edition '%.20s' of the rules",
			   edition);
		return;
	}
	if (strcmp(l->command, "run") != 0 || strcmp(s->division, "closed") != 0 ||
	    strcmp(hash, "unknown") == 0)
		return;
	if (!core_config_class(edition, l->model, accelerator, hash))
		check_find(c, "EDN-02", l->path,
			   "the configuration, %.40s, is of no class of %s on %.20s under edition "
			   "%s: this is not the workload of that name",
			   hash, l->model, accelerator, edition);
}

void check_stamp(struct check *c, const struct check_system *s, const struct check_leaf *l,
		 const char *pointer)
{
	const char *named = tree_text(l->metadata, "provenance_file", NULL);
	struct yaml_node *stamp = NULL;
	struct shoal_err why = { "" };
	char path[CHECK_PATH_MAX], image[64], words[256];

	check_path(path, l->path, LAYOUT_PROVENANCE);
	if (access(path, F_OK) < 0) {
		if (named)
			check_find(c, "PROV-01", l->path,
				   "the metadata name '%.100s', which is missing", named);
		return;
	}
	if (tree_load(path, &stamp, &why) < 0) {
		check_find(c, "PROV-01", l->path, LAYOUT_PROVENANCE " cannot be read: %s", why.msg);
		return;
	}
	snprintf(image, sizeof(image), TREE_POINTER_PREFIX "%s", pointer);
	if (!is_stamp(stamp, words, sizeof(words))) {
		check_find(c, "PROV-01", l->path, "in its " LAYOUT_PROVENANCE ", %s", words);
	} else {
		if (*pointer && strcmp(tree_text(stamp, "tool.code_image", ""), image) != 0)
			check_find(c, "PROV-01", l->path,
				   LAYOUT_PROVENANCE " and " TREE_POINTER " name different code");
		check_edition(c, s, l, stamp);
	}
	yaml_free(stamp);
}

bool check_stamp_edition(const char *leaf, char *ret_edition, size_t cap)
{
	struct yaml_node *stamp = NULL;
	char path[CHECK_PATH_MAX], words[256];
	bool good;

	check_path(path, leaf, LAYOUT_PROVENANCE);
	if (access(path, F_OK) < 0 || tree_load(path, &stamp, NULL) < 0)
		return false;
	good = is_stamp(stamp, words, sizeof(words));
	if (good)
		snprintf(ret_edition, cap, "%s", tree_text(stamp, "rules_edition", ""));
	yaml_free(stamp);
	return good;
}
