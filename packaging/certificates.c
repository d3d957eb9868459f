/* For the OpenSSL inside the wheel's libcurl: where each distribution keeps the certificates that
 * it trusts. Debian's libcrypto.a, which has these functions too, knows Debian's place alone.
 * SSL_CERT_FILE and SSL_CERT_DIR come first, as in every OpenSSL. */
#include <openssl/x509.h>
#include <unistd.h>

static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Gentoo */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, RHEL */
	"/etc/pki/tls/certs/ca-bundle.crt",                  /* older RHEL, Amazon Linux */
	"/etc/ssl/ca-bundle.pem",                            /* openSUSE, SLES */
	"/etc/ssl/cert.pem",                                 /* Alpine */
};

const char *X509_get_default_cert_file(void)
{
	for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++)
		if (access(bundles[i], R_OK) == 0)
			return bundles[i];
	return bundles[0];
}

const char *X509_get_default_cert_dir(void)
{
	return "/etc/ssl/certs";
}

const char *X509_get_default_cert_area(void)
{
	return "/etc/ssl";
}

const char *X509_get_default_private_dir(void)
{
	return "/etc/ssl/private";
}

const char *X509_get_default_cert_file_env(void)
{
	return "SSL_CERT_FILE";
}

const char *X509_get_default_cert_dir_env(void)
{
	return "SSL_CERT_DIR";
}
