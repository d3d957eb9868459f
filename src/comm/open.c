/* open.c - find out what started this process, and load the matching transport. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/text.h"
#include "built.h"
#include "comm/comm_private.h"

/* Variables that only one launcher sets. The first one found decides. */
static const struct {
	const char *variable, *mpi;
} sign[] = {
	{ "OMPI_COMM_WORLD_SIZE", "openmpi" }, /* mpirun of Open MPI */
	{ "PMI_RANK", "mpich" },               /* mpirun of MPICH, srun --mpi=pmi2 */
	{ "PMI_SIZE", "mpich" },
	{ "MPI_LOCALNRANKS", "mpich" },
	{ "PMIX_RANK", "openmpi" }, /* srun --mpi=pmix */
};

/* "openmpi", "mpich" or a path; NULL if this process is alone. @ret_why names the evidence. */
static const char *choose(const char **ret_why)
{
	const char *said = getenv("SHOAL_MPI");

	*ret_why = "SHOAL_MPI";
	if (said && said[0])
		return strcmp(said, "none") == 0 ? NULL : said;
	for (size_t i = 0; i < ARRAY_LEN(sign); i++) {
		*ret_why = sign[i].variable;
		if (getenv(sign[i].variable))
			return sign[i].mpi;
	}
	return NULL;
}

static int load_module(const char *path, const struct comm_transport **ret_t, struct shoal_err *err)
{
	const struct comm_transport *t;
	/* Global, because Open MPI loads plug-ins that need its symbols. */
	void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

	if (!module) {
		const char *why = dlerror();

		return err_set(err, -ELIBACC, "cannot load the MPI module '%s': %s", path,
			       why ? why : "no reason given");
	}
	t = dlsym(module, COMM_TRANSPORT_SYMBOL);
	if (!t)
		return err_set(err, -ELIBBAD, "'%s' is not a Shoal module", path);
	if (t->version != COMM_TRANSPORT_VERSION)
		return err_set(err, -ELIBBAD,
			       "the MPI module '%s' has version %u, and this program needs %u; "
			       "both must come from one build",
			       path, t->version, COMM_TRANSPORT_VERSION);
	*ret_t = t;
	return 0;
}

/* Where modules may be: SHOAL_MODULE_DIR; next to the running program, as in a build; below its
 * prefix, wherever that was moved to, and as a Python wheel has them; the installed location. NULL
 * or "": none. */
struct module_folders {
	const char *at[5];
	char beside[PATH_MAX], below[PATH_MAX + 16], wheel[PATH_MAX + 16];
};

static void find_module_folders(struct module_folders *f)
{
	f->beside[0] = f->below[0] = f->wheel[0] = '\0';
	if (path_of_program(f->beside, sizeof(f->beside))) {
		snprintf(f->below, sizeof(f->below), "%s/../lib/shoal", f->beside);
		snprintf(f->wheel, sizeof(f->wheel), "%s/../share/shoal", f->beside);
	}
	f->at[0] = getenv("SHOAL_MODULE_DIR");
	f->at[1] = f->beside;
	f->at[2] = f->below;
	f->at[3] = f->wheel;
	f->at[4] = SHOAL_MODULE_DIR_INSTALLED;
}

/* Whether @folder has the module, and its path. */
static bool has_module(const char *folder, const char *mpi, char *ret_path, size_t cap)
{
	int n = snprintf(ret_path, cap, "%s/shoal_mpi_%s.so", folder, mpi);

	return n > 0 && (size_t)n < cap && access(ret_path, F_OK) == 0;
}

bool comm_has_module(const char *mpi)
{
	char path[PATH_MAX + 64];
	struct module_folders f;

	find_module_folders(&f);
	for (size_t i = 0; i < ARRAY_LEN(f.at); i++)
		if (f.at[i] && f.at[i][0] && has_module(f.at[i], mpi, path, sizeof(path)))
			return true;
	return false;
}

static int find_module(const char *mpi, const char *why, const struct comm_transport **ret_t,
		       struct shoal_err *err)
{
	char path[PATH_MAX + 64], looked[512] = "";
	struct module_folders f;
	size_t at = 0;

	find_module_folders(&f);
	for (size_t i = 0; i < ARRAY_LEN(f.at); i++) {
		int n;

		if (!f.at[i] || !f.at[i][0])
			continue;
		if (has_module(f.at[i], mpi, path, sizeof(path)))
			return load_module(path, ret_t, err);
		n = snprintf(looked + at, sizeof(looked) - at, "%s%s", at ? ", " : "", f.at[i]);
		if (n > 0)
			at = u64_min(at + (size_t)n, sizeof(looked) - 1);
	}
	return err_set(err, -ELIBACC,
		       "%s says that %s started this process, but there is no shoal_mpi_%s.so in "
		       "%s; build shoal where that MPI is installed, set SHOAL_MODULE_DIR, or set "
		       "SHOAL_MPI=none to run each process alone",
		       why, mpi, mpi, looked);
}

/*
 * An MPI that does not recognise its launcher believes to be alone. Processes that all believe so
 * would overwrite each other's files.
 */
static int check_size(struct comm *c, const char *mpi, struct shoal_err *err)
{
	static const char *const variable[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
						"SLURM_STEP_NUM_TASKS" };

	for (size_t i = 0; i < ARRAY_LEN(variable) && comm_place(c)->size == 1; i++) {
		const char *said = getenv(variable[i]);

		if (said && strcmp(said, "1") != 0)
			return err_set(
				err, -ENOTSUP,
				"%s says that there are %s processes, but %s sees only one: it "
				"is not the MPI that started them; set SHOAL_MPI to the right "
				"one, or to none to run each process alone",
				variable[i], said, mpi);
		if (said)
			break;
	}
	return 0;
}

/* Whether the process that started this one has @variable, too: then it is a rank itself. Launchers
 * have no rank, and those of other users cannot be read. */
static bool parent_has(const char *variable)
{
	char path[64], *text = NULL;
	size_t len = strlen(variable), cap = 0;
	bool found = false;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)getppid());
	in = fopen(path, "re");
	while (in && !found && getdelim(&text, &cap, '\0', in) > 0)
		found = strncmp(text, variable, len) == 0 && text[len] == '=';
	free(text);
	if (in)
		fclose(in);
	return found;
}

int comm_launched_rank(int *ret_size)
{
	static const struct {
		const char *rank, *size;
	} launcher[] = {
		{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
		{ "PMI_RANK", "PMI_SIZE" },
		{ "SLURM_PROCID", "SLURM_STEP_NUM_TASKS" },
	};
	const char *said = getenv("SHOAL_MPI");

	*ret_size = 1;
	if (said && strcmp(said, "none") == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(launcher); i++) {
		const char *rank = getenv(launcher[i].rank), *size = getenv(launcher[i].size);
		uint64_t r, n;

		if (!rank || !size || parse_u64(rank, &r) < 0 || parse_u64(size, &n) < 0 ||
		    r >= n || n > INT_MAX || parent_has(launcher[i].rank))
			continue;
		*ret_size = (int)n;
		return (int)r;
	}
	return 0;
}

/* Open without any sign of MPI. */
static int open_alone(struct comm **ret_comm, struct shoal_err *err)
{
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS"), *said = getenv("SHOAL_MPI");

	if (tasks && strcmp(tasks, "1") != 0 && !(said && said[0]))
		return err_set_hint(err, -ENOTSUP, SHOAL_HINT_LAUNCHER,
				    "srun started %s processes, but not as one MPI job", tasks);
	return comm_self(ret_comm, err);
}

int comm_open(struct comm **ret_comm, struct shoal_err *err)
{
	const struct comm_transport *t = NULL;
	const char *why, *mpi = choose(&why);
	struct comm *c;
	int rc;

	if (!mpi)
		return open_alone(ret_comm, err);
	if (strchr(mpi, '/'))
		rc = load_module(mpi, &t, err);
	else if (strcmp(mpi, "openmpi") == 0 || strcmp(mpi, "mpich") == 0)
		rc = find_module(mpi, why, &t, err);
	else
		rc = err_set(err, -EINVAL,
			     "SHOAL_MPI is '%s'; it can be none, openmpi, mpich, or the path of a "
			     "module with a / in it",
			     mpi);
	if (rc < 0)
		return rc;
	rc = comm_open_transport(t, NULL, &c, err);
	if (rc < 0)
		return rc;
	rc = check_size(c, comm_name(c), err);
	if (rc == 0)
		rc = comm_pulse_open(c, err);
	if (rc < 0) {
		comm_close(c);
		return rc;
	}
	*ret_comm = c;
	return 0;
}
