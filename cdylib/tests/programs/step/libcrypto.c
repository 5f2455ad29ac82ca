/* OpenSSL's library of ciphers: much of it is assembly, with call frame information of its own making.
 *
 * The library is opened at run time and its functions found by name, so that neither its headers nor its linker name
 * are needed. Keys are made unstepped.
 */
#define _GNU_SOURCE
#include "step.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *crypto;

/* Declares a pointer of the function's name and finds it at first use. */
#define FUNCTION(result, name, parameters)                                  \
    static result (*name) parameters;                                       \
    __attribute__((constructor)) static void find_##name(void) {            \
        if (crypto == NULL) crypto = dlopen("libcrypto.so.3", RTLD_NOW);    \
        if (crypto != NULL) *(void **)&name = dlsym(crypto, #name);         \
        if (name == NULL) {                                                 \
            fprintf(stderr, "libcrypto.so.3: no " #name "\n");              \
            exit(99);                                                       \
        }                                                                   \
    }

FUNCTION(int, EVP_Digest, (const void *, size_t, unsigned char *, unsigned *, const void *, void *))
FUNCTION(void *, EVP_MD_fetch, (void *, const char *, const char *))
FUNCTION(void *, EVP_CIPHER_fetch, (void *, const char *, const char *))
FUNCTION(void *, EVP_CIPHER_CTX_new, (void))
FUNCTION(void, EVP_CIPHER_CTX_free, (void *))
FUNCTION(int, EVP_CipherInit_ex, (void *, const void *, void *, const unsigned char *, const unsigned char *, int))
FUNCTION(int, EVP_CipherUpdate, (void *, unsigned char *, int *, const unsigned char *, int))
FUNCTION(int, EVP_CipherFinal_ex, (void *, unsigned char *, int *))
FUNCTION(void *, EVP_PKEY_Q_keygen, (void *, const char *, const char *, ...))
FUNCTION(void *, EVP_MD_CTX_new, (void))
FUNCTION(void, EVP_MD_CTX_free, (void *))
FUNCTION(int, EVP_DigestSignInit, (void *, void **, const void *, void *, void *))
FUNCTION(int, EVP_DigestSign, (void *, unsigned char *, size_t *, const unsigned char *, size_t))
FUNCTION(int, EVP_DigestVerifyInit, (void *, void **, const void *, void *, void *))
FUNCTION(int, EVP_DigestVerify, (void *, const unsigned char *, size_t, const unsigned char *, size_t))
FUNCTION(void *, EVP_PKEY_CTX_new, (void *, void *))
FUNCTION(void, EVP_PKEY_CTX_free, (void *))
FUNCTION(int, EVP_PKEY_derive_init, (void *))
FUNCTION(int, EVP_PKEY_derive_set_peer, (void *, void *))
FUNCTION(int, EVP_PKEY_derive, (void *, unsigned char *, size_t *))
FUNCTION(void *, BN_new, (void))
FUNCTION(void, BN_free, (void *))
FUNCTION(void *, BN_CTX_new, (void))
FUNCTION(void, BN_CTX_free, (void *))
FUNCTION(int, BN_hex2bn, (void **, const char *))
FUNCTION(int, BN_mod_exp, (void *, const void *, const void *, const void *, void *))
FUNCTION(int, BN_mod_exp_mont_consttime, (void *, const void *, const void *, const void *, void *, void *))
FUNCTION(int, BN_mul, (void *, const void *, const void *, void *))
FUNCTION(int, BN_sqr, (void *, const void *, void *))
FUNCTION(int, BN_div, (void *, void *, const void *, const void *, void *))
FUNCTION(void *, BN_mod_inverse, (void *, const void *, const void *, void *))
FUNCTION(char *, BN_bn2dec, (const void *))
FUNCTION(int, RAND_bytes, (unsigned char *, int))

enum { BYTES = 1500 };
static unsigned char input[BYTES], output[BYTES + 64];

static void run_digests(const struct stepper *stepper UNUSED) {
    static const char *const names[] = {"SHA1", "SHA256", "SHA512", "MD5", "SHA3-256", "BLAKE2b512", "RIPEMD160", "SM3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsigned char digest[64];
        void *kind = EVP_MD_fetch(NULL, names[i], NULL);
        if (kind != NULL) EVP_Digest(input, 400, digest, NULL, kind, NULL);
    }
}

static void encrypt(const char *name, int length) {
    static const unsigned char key[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    static const unsigned char start[16] = {9, 8, 7};
    int done = 0;
    void *kind = EVP_CIPHER_fetch(NULL, name, NULL), *context = EVP_CIPHER_CTX_new();
    if (kind != NULL && EVP_CipherInit_ex(context, kind, NULL, key, start, 1) == 1) {
        EVP_CipherUpdate(context, output, &done, input, length);
        EVP_CipherFinal_ex(context, output + done, &done);
        EVP_CipherInit_ex(context, NULL, NULL, NULL, start, 0);
        EVP_CipherUpdate(context, output, &done, input, length);
    }
    EVP_CIPHER_CTX_free(context);
}

static void run_aes(const struct stepper *stepper UNUSED) {
    encrypt("AES-128-CBC", 320);
    encrypt("AES-256-CTR", 500);
    encrypt("AES-128-XTS", 300);
    encrypt("AES-192-ECB", 256);
    encrypt("AES-256-OCB", 300);
}

static void run_authenticated(const struct stepper *stepper UNUSED) {
    encrypt("AES-128-GCM", BYTES);
    encrypt("ChaCha20-Poly1305", BYTES);
    encrypt("ChaCha20", 150);
    encrypt("AES-128-CBC-HMAC-SHA256", 320);
}

static void run_other_ciphers(const struct stepper *stepper UNUSED) {
    encrypt("CAMELLIA-128-CBC", 200);
    encrypt("DES-EDE3-CBC", 200);
    encrypt("ARIA-128-CTR", 200);
    encrypt("SM4-CBC", 200);
}

static void *rsa, *ecdsa, *ed25519, *x25519, *x25519_peer, *sha256;

static void make_keys(void) {
    rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)1024);
    ecdsa = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    ed25519 = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    x25519 = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    x25519_peer = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (rsa == NULL || ecdsa == NULL || ed25519 == NULL || x25519 == NULL || x25519_peer == NULL) exit(99);
}

static void sign(void *key, const void *digest) {
    unsigned char signature[512];
    size_t length = sizeof signature;
    void *context = EVP_MD_CTX_new();
    if (EVP_DigestSignInit(context, NULL, digest, NULL, key) != 1) exit(99);
    if (EVP_DigestSign(context, signature, &length, input, 100) != 1) exit(99);
    EVP_MD_CTX_free(context);
    context = EVP_MD_CTX_new();
    if (EVP_DigestVerifyInit(context, NULL, digest, NULL, key) != 1) exit(99);
    if (EVP_DigestVerify(context, signature, length, input, 100) != 1) exit(99);
    EVP_MD_CTX_free(context);
}

static void run_rsa(const struct stepper *stepper UNUSED) {
    sign(rsa, sha256);
}

static void run_ecdsa(const struct stepper *stepper UNUSED) {
    sign(ecdsa, sha256);
}

static void run_ed25519(const struct stepper *stepper UNUSED) {
    sign(ed25519, NULL);
}

static void run_x25519(const struct stepper *stepper UNUSED) {
    unsigned char secret[64];
    size_t length = sizeof secret;
    void *context = EVP_PKEY_CTX_new(x25519, NULL);
    if (EVP_PKEY_derive_init(context) != 1 || EVP_PKEY_derive_set_peer(context, x25519_peer) != 1) exit(99);
    if (EVP_PKEY_derive(context, secret, &length) != 1) exit(99);
    EVP_PKEY_CTX_free(context);
}

static void *base, *exponent, *modulus, *result, *bn_context;

static void make_numbers(void) {
    char digits[257];
    for (int i = 0; i < 256; i++) digits[i] = "123456789abcdef7"[i * 7 % 16];
    digits[256] = 0;
    bn_context = BN_CTX_new();
    result = BN_new();
    BN_hex2bn(&base, digits);
    BN_hex2bn(&modulus, digits + 1);
    BN_hex2bn(&exponent, "10001f");
    /* Asks for the seed now: that is a file or a system call. */
    RAND_bytes(input, 16);
}

static void run_numbers(const struct stepper *stepper UNUSED) {
    static void *small;
    BN_mod_exp(result, base, exponent, modulus, bn_context);
    BN_mod_exp_mont_consttime(result, base, exponent, modulus, bn_context, NULL);
    BN_mul(result, base, modulus, bn_context);
    BN_sqr(result, base, bn_context);
    BN_hex2bn(&small, "fedcba987654321fedcba98765432123");
    BN_div(result, NULL, base, small, bn_context);
    BN_mod_inverse(result, small, modulus, bn_context);
    free(BN_bn2dec(base));
    RAND_bytes(output, 64);
}

const struct region regions[] = {
    {"digests", 0, run_digests},
    {"aes", 0, run_aes},
    {"authenticated", 0, run_authenticated},
    {"other-ciphers", 0, run_other_ciphers},
    {"rsa", make_keys, run_rsa},
    {"ecdsa", 0, run_ecdsa},
    {"ed25519", 0, run_ed25519},
    {"x25519", 0, run_x25519},
    {"numbers", make_numbers, run_numbers},
    {0, 0, 0},
};
