/* Known names and shapes of secrets. */
#include "run/snapshot_secret.h"

#include <string.h>

#include "base/files.h"
#include "base/text.h"

bool secret_name(const char *path)
{
	static const char *const files[] = {".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx",
		"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".git-credentials",
		"credentials*", ".pgpass", ".htpasswd", ".pypirc", ".npmrc", ".dockercfg", "*.token", "token",
		"token.txt", ".hf_token", "*_token.txt"};
	static const char *const directories[] = {".aws/", ".ssh/", ".gnupg/", ".docker/", ".kube/"};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (text_match(files[i], path_base(path)))
			return true;
	for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
		const char *at = strstr(path, directories[i]);
		if (at && (at == path || at[-1] == '/'))
			return true;
	}
	return text_ends(path, "wandb/settings");
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_word(char c)
{
	return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z') || c == '_';
}

/* Tokens: a prefix at the start of a word, and so many characters of a word behind it. */
static const struct token {
	const char *prefix;
	size_t least, most; /* most 0: any number */
	bool upper;         /* capitals and digits alone */
	const char *kind;
} tokens[] = {
	{"ghp_", 36, 0, false, "GitHub token"},
	{"gho_", 36, 0, false, "GitHub token"},
	{"ghu_", 36, 0, false, "GitHub token"},
	{"ghs_", 36, 0, false, "GitHub token"},
	{"ghr_", 36, 0, false, "GitHub token"},
	{"github_pat_", 22, 0, false, "GitHub token"},
	{"glpat-", 20, 0, false, "GitLab token"},
	{"hf_", 34, 0, false, "Hugging Face token"},
	{"AKIA", 16, 16, true, "AWS key"},
	{"ASIA", 16, 16, true, "AWS key"},
	{"xoxb-", 10, 0, false, "Slack token"},
	{"xoxp-", 10, 0, false, "Slack token"},
};

static bool token_at(const struct token *token, const char *data, size_t bytes)
{
	size_t length = strlen(token->prefix), count = 0;
	if (bytes < length + token->least || memcmp(data, token->prefix, length))
		return false;
	while (length + count < bytes && is_word(data[length + count])) {
		if (token->upper && !is_upper(data[length + count]) && !is_digit(data[length + count]))
			return false;
		count++;
	}
	return count >= token->least && (!token->most || count <= token->most);
}

/* "-----BEGIN", capitals, "PRIVATE KEY-----" on one line. */
static bool private_key_at(const char *data, size_t bytes)
{
	static const char begin[] = "-----BEGIN ", end[] = "PRIVATE KEY-----";
	size_t at = sizeof begin - 1, limit = at + 32;
	if (bytes < at || memcmp(data, begin, at))
		return false;
	for (; at < limit && at + sizeof end - 1 <= bytes; at++) {
		if (!memcmp(data + at, end, sizeof end - 1))
			return true;
		if (!is_upper(data[at]) && !is_digit(data[at]) && data[at] != ' ')
			return false;
	}
	return false;
}

const char *secret_content(const char *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (data[i] == '-' && private_key_at(data + i, bytes - i))
			return "private key";
		if (i && is_word(data[i - 1]))
			continue;
		for (size_t j = 0; j < sizeof tokens / sizeof *tokens; j++)
			if (data[i] == *tokens[j].prefix && token_at(&tokens[j], data + i, bytes - i))
				return tokens[j].kind;
	}
	return NULL;
}
