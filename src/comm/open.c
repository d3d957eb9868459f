/* open.c - find out who started this process, and load what speaks with the others. */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm_inside.h"

/* Variables that a starter sets, and no other. The first that is set decides. */
static const struct {
	const char *variable, *mpi;
} sign[] = {
	{ "OMPI_COMM_WORLD_SIZE", "openmpi" }, /* mpirun of Open MPI */
	{ "PMI_RANK", "mpich" },               /* mpirun of MPICH, srun --mpi=pmi2 */
	{ "PMI_SIZE", "mpich" },
	{ "MPI_LOCALNRANKS", "mpich" },
	{ "PMIX_RANK", "openmpi" }, /* srun --mpi=pmix */
};

/* "openmpi", "mpich" or a path; NULL: this process is alone. @ret_why is how it is known. */
static const char *choose(const char **ret_why)
{
	const char *said = getenv("SHOAL_MPI");

	*ret_why = "SHOAL_MPI";
	if (said && said[0])
		return strcmp(said, "none") == 0 ? NULL : said;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(sign); i++) {
		*ret_why = sign[i].variable;
		if (getenv(sign[i].variable))
			return sign[i].mpi;
	}
	return NULL;
}

static int load(const char *path, const struct comm_transport **ret_t, struct shoal_err *err)
{
	const struct comm_transport *t;
	/* Global: Open MPI loads parts of itself, which look for its names among all. */
	void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

	if (!module) {
		const char *why = dlerror();

		return shoal_fail(err, -ELIBACC, "cannot load the MPI module '%s': %s", path,
				  why ? why : "no reason given");
	}
	t = dlsym(module, COMM_TRANSPORT_SYMBOL);
	if (!t)
		return shoal_fail(err, -ELIBBAD, "'%s' is not a module of shoal", path);
	if (t->version != COMM_TRANSPORT_VERSION)
		return shoal_fail(err, -ELIBBAD,
				  "the MPI module '%s' has version %u, and this program needs %u; "
				  "both must come from one build",
				  path, t->version, COMM_TRANSPORT_VERSION);
	*ret_t = t;
	return 0;
}

/* The folder of the running program: that is where a build puts its modules. */
static const char *program_folder(char *room, size_t size)
{
	ssize_t len = readlink("/proc/self/exe", room, size - 1);

	if (len <= 0)
		return NULL;
	room[len] = '\0';
	return dirname(room);
}

static int find(const char *mpi, const char *why, const struct comm_transport **ret_t,
		struct shoal_err *err)
{
	char exe[PATH_MAX], path[PATH_MAX + 64], looked[512] = "";
	const char *folder[] = { getenv("SHOAL_MODULE_DIR"), program_folder(exe, sizeof(exe)),
				 SHOAL_MODULE_DIR_INSTALLED };
	size_t at = 0;

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(folder); i++) {
		int n;

		if (!folder[i] || !folder[i][0])
			continue;
		n = snprintf(path, sizeof(path), "%s/shoal_mpi_%s.so", folder[i], mpi);
		if (n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0)
			return load(path, ret_t, err);
		n = snprintf(looked + at, sizeof(looked) - at, "%s%s", at ? ", " : "", folder[i]);
		if (n > 0)
			at = shoal_min(at + (size_t)n, sizeof(looked) - 1);
	}
	return shoal_fail(
		err, -ELIBACC,
		"%s says that %s started this process, but there is no shoal_mpi_%s.so in "
		"%s; build shoal where that MPI is installed, set SHOAL_MODULE_DIR, or set "
		"SHOAL_MPI=none to run each process alone",
		why, mpi, mpi, looked);
}

/*
 * An MPI that does not understand who started it takes itself for alone. Processes that all think
 * so would write over each other's files.
 */
static int check_size(struct shoal_comm *c, const char *mpi, struct shoal_err *err)
{
	static const char *const variable[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
						"SLURM_STEP_NUM_TASKS" };

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(variable) && shoal_comm_place(c)->size == 1; i++) {
		const char *said = getenv(variable[i]);

		if (said && strcmp(said, "1") != 0)
			return shoal_fail(
				err, -ENOTSUP,
				"%s says that there are %s processes, but %s sees one "
				"only: it is not the MPI that started them; set SHOAL_MPI "
				"to the right one, or to none to run each process alone",
				variable[i], said, mpi);
		if (said)
			break;
	}
	return 0;
}

/* Without a sign of MPI. */
static int open_alone(struct shoal_comm **ret_comm, struct shoal_err *err)
{
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS"), *said = getenv("SHOAL_MPI");

	if (tasks && strcmp(tasks, "1") != 0 && !(said && said[0]))
		return shoal_fail(err, -ENOTSUP,
				  "srun started %s processes, but not as one MPI job: use srun "
				  "--mpi=pmix for Open MPI or --mpi=pmi2 for MPICH, or set "
				  "SHOAL_MPI=none to run each process alone",
				  tasks);
	return shoal_comm_self(ret_comm, err);
}

int shoal_comm_open(struct shoal_comm **ret_comm, struct shoal_err *err)
{
	const struct comm_transport *t = NULL;
	const char *why, *mpi = choose(&why);
	struct shoal_comm *c;
	int rc;

	if (!mpi)
		return open_alone(ret_comm, err);
	if (strchr(mpi, '/'))
		rc = load(mpi, &t, err);
	else if (strcmp(mpi, "openmpi") == 0 || strcmp(mpi, "mpich") == 0)
		rc = find(mpi, why, &t, err);
	else
		rc = shoal_fail(
			err, -EINVAL,
			"SHOAL_MPI is '%s'; it can be none, openmpi, mpich, or the path of a "
			"module with a / in it",
			mpi);
	if (rc < 0)
		return rc;
	rc = comm_open_transport(t, NULL, &c, err);
	if (rc < 0)
		return rc;
	rc = check_size(c, shoal_comm_name(c), err);
	if (rc < 0) {
		shoal_comm_close(c);
		return rc;
	}
	*ret_comm = c;
	return 0;
}
