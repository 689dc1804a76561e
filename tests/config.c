/* lib/config: the option tables, reading, canonical text, identity; random configurations (seeded). */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "check.h"
#include "config/compose.h"
#include "config/config.h"
#include "config/explain.h"
#include "config/scan.h"
#include "config/tasks.h"
#include "config/value.h"

#define SEED 20240607
#define RANDOM_CONFIGS 300

/* A file of the scratch directory with that content; the name is valid until the next call. */
static const char *scratch_file(const char *name, const char *content)
{
	static char path[512];
	snprintf(path, sizeof path, "%s/%s", check_scratch(), name);
	if (file_publish(path, content, strlen(content)))
		check_report(false, "scratch file", "%s", error_message());
	return path;
}

static int compose_words(const char *const *words, size_t count, struct config **config)
{
	struct config_layer layers[32] = {{0}};
	for (size_t i = 0; i < count; i++)
		layers[i] = (struct config_layer){.text = words[i], .source = "word", .kind = LAYER_WORD};
	return config_compose(layers, count, config);
}

static int compose_file(const char *path, struct config **config)
{
	struct config_layer layer = {.text = path, .kind = LAYER_FILE};
	return config_compose(&layer, 1, config);
}

/* ===== the tables ===== */

static bool default_converts(const struct config_key *row)
{
	struct literal literal = {0};
	struct config_value value = {0};
	bool good = !literal_word(&literal, row->value) && !value_convert(row, row->key, &literal, &value);
	value_release(&value);
	literal_release(&literal);
	return good;
}

static void test_table(const struct config_key *table, const char *name)
{
	bool defaults = true, unique = true, together = true, help = true;
	for (int i = 0; table[i].key; i++) {
		const char *dot = strchr(table[i].key, '.');
		size_t length = dot ? (size_t)(dot - table[i].key) + 1 : 0;
		defaults = defaults && (default_converts(&table[i]) || !strcmp(table[i].key, "path"));
		help = help && table[i].help && table[i].help[0] && table[i].unit && table[i].choices &&
		       (table[i].type == CONFIG_CHOICE) == (table[i].choices[0] != 0) &&
		       !strpbrk(table[i].help, "\t\n");
		bool left = false;
		for (int j = i + 1; table[j].key; j++) {
			unique = unique && strcmp(table[i].key, table[j].key) != 0;
			bool same = length > 0 && strncmp(table[i].key, table[j].key, length) == 0;
			together = together && !(same && left);
			left = left || !same;
		}
	}
	char what[64];
	snprintf(what, sizeof what, "%s: every default is valid", name);
	check(defaults, what);
	snprintf(what, sizeof what, "%s: no key twice", name);
	check(unique, what);
	snprintf(what, sizeof what, "%s: the keys of a group follow each other", name);
	check(together, what);
	snprintf(what, sizeof what, "%s: every key has help; choices where they belong", name);
	check(help, what);
}

/* ===== getters ===== */

static void test_getters(void)
{
	const char *const words[] = {"data.train.a.b.path=/x/../y", "data.train.a.b.size=[48, 64]",
		"train.steps=5000000000", "optimizer.lr=2e-3", "data.cache=1.5 GiB", "model.widths=32,64",
		"model.heads=(1,2)", "model.attention=1,0", "model.norm_groups=8", "data.skip=TRUE",
		"checkpoint.minutes=0.5", "batch.size=1e3", "data.val.v.path=~/v"};
	struct config *config = NULL;
	setenv("HOME", "/h/user", 1);
	if (!check(!compose_words(words, sizeof words / sizeof *words, &config), "words compose")) {
		puts(error_message());
		return;
	}
	check(config_integer(config, "train.steps") == 5000000000, "an integer beyond 32 bits");
	check(config_integer(config, "batch.size") == 1000, "1e3 is an integer");
	check(config_number(config, "optimizer.lr") == 2e-3, "a number");
	check(config_bytes(config, "data.cache") == 3 * 536870912u, "bytes");
	check(config_bool(config, "data.skip"), "a flag");
	check_text(config_text(config, "task"), "depth", "a default");
	check(config_count(config, "model.widths") == 2 && config_integer_at(config, "model.widths", 1) == 64,
		"a list");
	check(config_groups(config, "data.train") == 1 && config_groups(config, "data.test") == 0,
		"groups are counted");
	check_text(
		config_group_text(config, "data.train", 0, "name"), "a.b", "a dataset's name may hold dots");
	check_text(config_group_text(config, "data.train", 0, "path"), "/y", "paths are made plain");
	check_text(config_group_text(config, "data.val", 0, "path"), "/h/user/v", "~/ is the home directory");
	check(config_group_count(config, "data.train", 0, "size") == 2 &&
			config_group_number_at(config, "data.train", 0, "size", 0) == 48,
		"a group's list of integers");
	check_text(config_source(config, "train.steps"), "word", "the source of a word");
	check_text(config_source(config, "task"), "default", "the source of a default");
	config_free(config);
}

/* ===== texts that must be read, and texts that must not ===== */

#define DATA "data: { train = ( { name = \"a\"; path = \"/a\"; } ); };\n"

static const struct {
	const char *name, *text, *key;
	double value;
} accepted[] = {
	{"an integer beyond 32 bits without L", DATA "train: { steps = 5000000000; }", "train.steps",
		5000000000.0},
	{"an integer beyond 32 bits with L", DATA "train: { steps = 5000000000L; }", "train.steps",
		5000000000.0},
	{"hexadecimal", DATA "train: { steps = 0x12A05F200; }", "train.steps", 5000000000.0},
	{"hexadecimal with bit 31", DATA "seed = 0xFFFFFFFF;", "seed", 4294967295.0},
	{"a number without a dot", DATA "optimizer: { lr = 1; }", "optimizer.lr", 1},
	{"a number that starts with a dot", DATA "optimizer: { lr = .5; }", "optimizer.lr", 0.5},
	{"an integer with a dot", DATA "batch: { size = 8.0; }", "batch.size", 8},
	{"a sign", DATA "optimizer: { lr = +5e-1; }", "optimizer.lr", 0.5},
	{"a comment of each kind", "# a\n// b \"\n/* c \n { */ " DATA "seed /* d */ = 7; # e", "seed", 7},
	{"a byte order mark", "\xef\xbb\xbf" DATA "seed = 7;", "seed", 7},
	{"line ends of another system", "seed = 7;\r\n" DATA, "seed", 7},
	{"a reference", DATA "seed = 7; schedule: { total = \"1${seed}7\"; }", "schedule.total", 177},
	{"a reference forward",
		DATA "seed = \"${batch.micro}\"; batch: { size = \"${batch.micro}\"; micro = 16; }",
		"batch.size", 16},
	{"format = 1", "format = 1;\n" DATA "seed = 3;", "seed", 3},
};

static void test_accepted(void)
{
	for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
		struct config *config = NULL;
		char what[128];
		snprintf(what, sizeof what, "accepted: %s", accepted[i].name);
		int status = compose_file(scratch_file("good.cfg", accepted[i].text), &config);
		if (check_report(!status, what, "%s", error_message())) {
			bool number = !strcmp(accepted[i].key, "optimizer.lr");
			check_close(number ? config_number(config, accepted[i].key)
					   : (double)config_integer(config, accepted[i].key),
				accepted[i].value, 0, what);
		}
		config_free(config);
	}
}

static const struct {
	const char *text, *message; /* what the message must hold */
} refused[] = {
	{"seed = 1;\nsed = 2;", "bad.cfg:2: unknown key 'sed'; did you mean seed?"},
	{"optimizer: {\n rl = 2; }", "bad.cfg:2: unknown key 'optimizer.rl'; did you mean optimizer.lr?"},
	{"lr = 2;", "bad.cfg:1: unknown key 'lr'; did you mean optimizer.lr?"},
	{"colour = 2;", "bad.cfg:1: unknown key 'colour' (mkconfig --keys"},
	{"optimizer = 2;", "'optimizer' is a group of keys (optimizer.name, ...)"},
	{"seed: { a = 2; }", "unknown key 'seed.a'"},
	{"\nseed = -1;", "bad.cfg:2: seed = -1 is out of range: 0 to 4294967295"},
	{"batch: { size = 0; }", "batch.size = 0 is out of range: 1 to 65536 samples"},
	{"batch: { size = 3000000000; }", "batch.size = 3000000000 is out of range"},
	{"optimizer: { lr = 1e9; }", "optimizer.lr = 1000000000 is out of range: 0 to 100"},
	{"seed = \"7\";", "bad.cfg:1: seed must be an integer, not the string \"7\""},
	{"seed = 1.5;", "seed must be an integer, not 1.5"},
	{"seed = true;", "seed must be an integer, not true"},
	{"seed = [1];", "seed must be an integer, not a list of 1"},
	{"task = 1;", "task must be a word of a list, not 1"},
	{"task = \"dept\";", "task = 'dept' is not one of: depth"},
	{"optimizer: { lr = \"1e-3\"; }", "optimizer.lr must be a number"},
	{"data: { skip = 1; }", "data.skip must be true or false, not 1"},
	{"data: { cache = \"1 parsec\"; }", "data.cache must be an amount of bytes"},
	{"model: { widths = 32; }", "model.widths must be a list of integers, not 32"},
	{"model: { widths = [32, \"a\"]; }", "model.widths[1] must be an integer, not the string"},
	{"model: { widths = [32, 64.5]; }", "model.widths[1] must be an integer, not 64.5"},
	{"model: { widths = [32, [64]]; }", "model.widths[1] must be an integer, not a list of 1"},
	{"model: { widths = [32, 1e9]; }",
		"model.widths[1] = 1000000000 is out of range: 8 to 8192 channels"},
	{"seed = 1;\nseed = 2;", "bad.cfg:2: duplicate setting name"},
	{"seed = 1;\n@include \"other.cfg\"\nseed = 2;", "bad.cfg:3: seed is set twice (first at"},
	{"seed = 99999999999999999999;", "bad.cfg:1: 99999999999999999999 is not an integer of 64 bits"},
	{"seed = 0x8000000000000000;", "is not an integer of 64 bits"},
	{"seed = 0755;", "0755 has a leading zero"},
	{"seed = 1x;", "1x is not a number"},
	{"seed = 1,5;", "bad.cfg:1: syntax error"},
	{"seed = 1e999;", "1e999 is not a number"},
	{"seed = --1;", "--1 is not a number"},
	{"seed = nan;", "bad.cfg:1: syntax error"},
	{"task = \"de", "bad.cfg:1: this string is not closed"},
	{"task = \"de\npth\";", "bad.cfg:1: this string is not closed"},
	{"task = \"\\q\";", "unknown escape"},
	{"task = \"\\x00\";", "unknown escape"},
	{"\"seed\" = 1;", "bad.cfg:1: a string stands where no value is expected"},
	{"seed = 1, \"x\";", "a string stands where no value is expected"},
	{"\n/* a\n\n", "bad.cfg:2: this comment is not closed"},
	{"batch: {\n", "bad.cfg:2: '}' is missing at the end of the file"},
	{"batch: { size = 1; ) ;", "')' closes nothing that is open"},
	{"model: { widths = [1, 2); }", "')' closes nothing that is open"},
	{"}", "'}' closes nothing that is open"},
	{"a = ((((((((((((((((((((1))))))))))))))))))));", "nested too deeply"},
	{"seed = 1 $", "unexpected '$'"},
	{"seed = 1 \x01;", "unexpected byte 0x01"},
	{"\xffseed = 1;", "bad.cfg:1: unexpected byte 0xff"},
	{"@include \"nowhere.cfg\"", "bad.cfg:1: "},
	{"\n@include \"bad.cfg\"", "bad.cfg:2: "},
	{"@include bad.cfg", "expected a line @include"},
	{"batch: { @include \"other.cfg\"\n }", "@include stands at the top level"},
	{"@inclde \"x\"", "'@' begins an @include"},
	{"format = 2;\nsomething new", "bad.cfg:1: format = 2: made by a newer version (this one knows 1)"},
	{"\n\nformat = 7L;", "bad.cfg:3: format = 7: made by a newer version"},
	{"format = \"1\";", "format must be 1"},
	{"format = 0;", "format must be 1"},
	{"data: { train = 1; }", "data.train is a list of groups"},
	{"data: { train = ( 1 ); }", "data.train holds groups"},
	{"data: { train = ( { path = \"a\"; } ); }", "a group of data.train has no name"},
	{"data: { train = ( { name = \"a b\"; } ); }", "a dataset's name has 1 to 64 of"},
	{"data: { train = ( { name = \"\"; } ); }", "a dataset's name has 1 to 64 of"},
	{"data: { train = ( { name = \"..\"; } ); }", "does not begin with a dot, not '..'"},
	{"data: { train = ( { name = \"a\"; paht = \"b\"; } ); }",
		"unknown field 'paht' of data.train.a; did you mean path?"},
	{"data: { train = ( { name = \"a\"; path = { b = 1; }; } ); }",
		"a group stands where a value must be"},
	{"data: { train = ( { name = \"a\"; },\n{ name = \"a\"; } ); }",
		"bad.cfg:2: data.train.a is set twice"},
	{"data: { train = ( { name = \"a\"; } ); }", "data.train.a.path is missing"},
	{"data: { trian = ( ); }", "unknown key 'data.trian'"},
	{"seed = \"${seed}\";", "bad.cfg:1: references go in a circle: seed -> seed"},
	{"seed = \"${batch.size}\";\nbatch: {\n size = \"${batch.micro}\"; micro = \"${batch.size}\"; }",
		"bad.cfg:3: references go in a circle: batch.size -> batch.micro -> batch.size"},
	{"seed = \"${sed}\";", "bad.cfg:1: ${sed}: there is no such key"},
	{"seed = \"${data.train.a.path}\";", "${data.train.a.path}: there is no such key"},
	{"seed = \"${env:NIGHTSHIFT_NOWHERE}\";", "the environment has no NIGHTSHIFT_NOWHERE"},
	{"seed = \"${env:LD_PRELOAD}\";", "${env:LD_PRELOAD}: this variable is not declared"},
	{"seed = \"${batch.size\";", "\"${\" has no \"}\""},
	{"seed = \"${task}\";", "bad.cfg:1: seed must be an integer, not 'depth'"},
	{DATA "batch: { size = 8;\n micro = 3; }", "batch.size = 8 (/"},
	{DATA "model: { heads = [1]; }", "model.heads = 1 (/"},
	{DATA "model: { attention = [1]; }", "must have one member a level"},
	{DATA "model: { widths = []; heads = []; attention = []; }", "model.widths must have 1 to 8 levels"},
	{DATA "model: { norm_groups = 7; }", "must be multiples of model.norm_groups = 7"},
	{DATA "model: { heads = [3, 5, 5, 5]; }",
		"must be multiples, level by level, of model.heads = 3,5,5,5"},
	{DATA "schedule: { warmup = 10; total = 10; }", "schedule.warmup = 10 (/"},
	{DATA "schedule: { name = \"multistep\"; }", "schedule.milestones must be 1 to 32 numbers"},
	{DATA "schedule: { name = \"two-steps\"; milestones = [3]; }", "must be two numbers"},
	{DATA "schedule: { name = \"multistep\"; milestones = [3, 2]; }", "schedule.milestones must rise"},
	{DATA "schedule: { name = \"multistep\"; milestones = [3]; gamma = 0; }",
		"schedule.gamma must be above 0"},
	{DATA "schedule: { name = \"plateau\"; }", "data.val, which is empty"},
	{DATA "schedule: { name = \"plateau\"; gamma = 1; }", "schedule.gamma must be below 1"},
	{DATA "optimizer: { name = \"sgd\"; momentum = 0; nesterov = true; }", "needs momentum"},
	{DATA "optimizer: { name = \"sgd\"; dampening = 0.9; nesterov = true; }", "goes without dampening"},
	{DATA "batch: { size = 8; micro = 4; rest = \"short\"; }", "needs one micro-batch a step"},
	{DATA "diffusion: { beta_start = 0.1; beta_end = 0.01; }", "must not be above diffusion.beta_end"},
	{DATA "diffusion: { prediction = \"epsilon\"; }", "diffusion.zero_snr"},
	{DATA "depth: { quantile = 0.5; }", "depth.quantile = 0.5 is out of range: 0 to 0.49"},
	{DATA "validate: { steps = 20; }; diffusion: { timesteps = 10; }",
		"must not be above diffusion.timesteps"},
	{"data: { train = ( { name = \"a\"; path = \"a\"; size = [8]; } ); }",
		"data.train.a.size must be height,width"},
	{"data: { train = ( { name = \"a\"; path = \"a\"; size = [8, 12]; } ); }",
		"data.train.a.size must be multiples of 8"},
	{"data: { train = ( { name = \"a\"; path = \"a\"; min = 2.0; max = 1.0; } ); }",
		"data.train.a.min must be below max"},
	{"data: { train = ( { name = \"a\"; path = \"a\"; weight = 0; } ); }",
		"data.train.a.weight and all others are 0"},
	{"data: { train = ( { name = \"a\"; path = \"a\"; } ); val = ( { name = \"a\"; path = \"b\"; } ); }",
		"data.val.a.path differs from that of data.train"},
	{"seed = 1;", "there is no training data"},
};

static void test_refused(void)
{
	unsetenv("NIGHTSHIFT_NOWHERE");
	scratch_file("other.cfg", "batch: { size = 4; micro = 4; }\n");
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct config *config = NULL;
		char what[160], shown[64];
		snprintf(shown, sizeof shown, "%s",
			refused[i].text + (text_starts(refused[i].text, DATA) ? strlen(DATA) : 0));
		for (char *at = shown; *at; at++)
			if (*at < 0x20 || *at == '#' || *at > 0x7e)
				*at = ' ';
		snprintf(what, sizeof what, "refused: %s", shown);
		int status = compose_file(scratch_file("bad.cfg", refused[i].text), &config);
		bool wanted = status == STATUS_CONFIG ||
			      (status == STATUS_NO_INPUT && strstr(refused[i].text, "nowhere"));
		check_report(wanted && strstr(error_message(), refused[i].message), what,
			"status %d, '%s' does not hold '%s'", status, error_message(), refused[i].message);
		config_free(config);
	}
}

/* Words: the same rules, and those of their own. */
static void test_refused_words(void)
{
	static const struct {
		const char *word[3], *message;
	} rows[] = {
		{{"seed=1", "seed=2"}, "seed is set twice (first at word)"},
		{{"data.train.a.path=x", "data.train.a.path=y"}, "data.train.a.path is set twice"},
		{{"seed"}, "'seed' is not key=value"},
		{{"=1"}, "'=1' is not key=value"},
		{{"seed=x"}, "seed must be an integer, not 'x'"},
		{{"seed="}, "seed must be an integer, not ''"},
		{{"seed=1 "}, "seed must be an integer"},
		{{"optimizer.lr=nan"}, "optimizer.lr must be a number"},
		{{"optimizer.lr=1,5"}, "optimizer.lr must be a number"},
		{{"model.heads=1,,2"}, "model.heads[1] must be an integer, not ''"},
		{{"data.train=x"}, "data.train=() empties the list"},
		{{"data.train.a=x"}, "write data.train.NAME.FIELD=VALUE"},
		{{"data.train.a.=x"}, "write data.train.NAME.FIELD=VALUE"},
		{{"data.train.a/b.path=x"}, "a dataset's name has 1 to 64"},
		{{"data.train.a.pth=x"}, "unknown field 'pth' of data.train.a; did you mean path?"},
		{{"data.train.a.name=b"}, "unknown field 'name'"},
		{{"format=1"}, "unknown key 'format'"},
		{{"data.train.a.path=${data.val.b.path}", "data.val.b.path=${data.train.a.path}"},
			"references go in a circle: data.train.a.path -> data.val.b.path -> "
			"data.train.a.path"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct config *config = NULL;
		char what[128];
		size_t count = 0;
		while (count < 3 && rows[i].word[count])
			count++;
		snprintf(what, sizeof what, "refused word: %s", rows[i].word[0]);
		int status = compose_words(rows[i].word, count, &config);
		check_report(status == STATUS_CONFIG && strstr(error_message(), rows[i].message), what,
			"status %d, '%s' does not hold '%s'", status, error_message(), rows[i].message);
		config_free(config);
	}
}

/* ===== layers ===== */

static void test_layers(void)
{
	struct config *config = NULL;
	char base[512], over[512];
	scratch_file("deep.cfg", "seed = 5;\noptimizer: { lr = 0.5; }\n");
	snprintf(base, sizeof base, "%s",
		scratch_file("base.cfg", "seed = 1;\ndata: { train = ( { name = \"a\"; path = \"rel\"; }, { "
					 "name = \"b\"; path = \"b\"; } ); }\n"));
	snprintf(over, sizeof over, "%s",
		scratch_file("over.cfg",
			"seed = 2;\n@include \"deep.cfg\"\nbatch: { size = \"${batch.micro}\"; }\n"
			"data: { train: { b: { weight = 3.0; }; }; val = ( { name = \"v\"; path = \"/v\"; } "
			"); }\n"));
	struct config_layer layers[] = {{.text = "data.val=()", .source = "argv[2]", .kind = LAYER_WORD},
		{.text = base, .kind = LAYER_FILE}, {.text = over, .kind = LAYER_FILE},
		{.text = "data.val.w.path=w", .source = "argv[5]", .kind = LAYER_WORD},
		{.text = "optimizer.lr=0.25", .source = "argv[6]", .kind = LAYER_WORD}};
	if (!check(!config_compose(layers, 5, &config), "two files, an included one and words")) {
		puts(error_message());
		return;
	}
	char source[600], path[600];
	snprintf(source, sizeof source, "%s/deep.cfg:1", check_scratch());
	snprintf(path, sizeof path, "%s/rel", check_scratch());
	check(config_integer(config, "seed") == 5, "an included file overrides what stands before it");
	check_text(strstr(config_source(config, "seed"), "deep.cfg")
			   ? strstr(config_source(config, "seed"), "deep.cfg")
			   : "",
		"deep.cfg:1", "the source is the included file's line");
	check(config_number(config, "optimizer.lr") == 0.25, "a word overrides files");
	check_text(config_source(config, "optimizer.lr"), "argv[6]", "the source of a word");
	check(config_integer(config, "batch.size") == 2, "a reference to a default");
	check(config_groups(config, "data.train") == 2 &&
			config_group_number(config, "data.train", 1, "weight") == 3,
		"a named group in a later file changes one field");
	check_text(config_group_text(config, "data.train", 0, "path"), path,
		"a relative path starts at its file");
	check(config_groups(config, "data.val") == 1 &&
			!strcmp(config_group_text(config, "data.val", 0, "name"), "w"),
		"an emptied list holds what words add, wherever they stand");
	config_free(config);
}

static void test_environment(void)
{
	const char *const words[] = {"data.train.a.path=${env:NIGHTSHIFT_T}/x",
		"data.val.a.path=${data.train.a.path}", "init.ignore=$${x}$$", "seed=${env:NIGHTSHIFT_SEED}"};
	struct config *config = NULL;
	setenv("NIGHTSHIFT_T", "/t", 1);
	setenv("NIGHTSHIFT_SEED", "77", 1);
	if (check(!compose_words(words, 4, &config), "environment variables in words")) {
		check_text(config_group_text(config, "data.val", 0, "path"), "/t/x",
			"a reference to a field of a group");
		check_text(config_text(config, "init.ignore"), "${x}$$", "$${ is text");
		check(config_integer(config, "seed") == 77, "a variable is read by the type of its key");
	}
	config_free(config);

	char here[4096];
	config = NULL;
	setenv("NIGHTSHIFT_T", "t", 1);
	const char *path = scratch_file(
		"env.cfg", "data: { train = ( { name = \"a\"; path = \"${env:NIGHTSHIFT_T}/x\"; } ); }");
	if (check(!compose_file(path, &config) && getcwd(here, sizeof here),
		    "an environment variable in a file")) {
		char wanted[4200];
		snprintf(wanted, sizeof wanted, "%s/t/x", here);
		check_text(config_group_text(config, "data.train", 0, "path"), wanted,
			"a relative path in a variable starts where the user is");
	}
	config_free(config);
}

/* Each level refers to the one before twice: the text would grow beyond all bounds. */
static void test_explosion(void)
{
	struct text text = {0};
	struct config *config = NULL;
	text_add(&text, "data: { train = (");
	for (int i = 0; i < 30; i++)
		text_format(&text,
			"%s{ name = \"g%d\"; path = \"${data.train.g%d.path}${data.train.g%d.path}\"; }",
			i ? ", " : "", i, i + 1, i + 1);
	text_add(&text, ", { name = \"g30\"; path = \"/0123456789\"; } ); }");
	int status = compose_file(scratch_file("bomb.cfg", text.data), &config);
	check(status == STATUS_CONFIG && strstr(error_message(), "a value of more than 65536 bytes"),
		"references that grow are bounded");
	text_release(&text);
	config_free(config);
}

/* ===== canonical text ===== */

/* Writes, reads, writes again: byte-equal; and equal values and ids. */
static bool round_trip(const struct config *config)
{
	struct config *again = NULL;
	struct config_differences differences = {0};
	char *first = config_canonical(config), *second = NULL;
	bool good = first && !config_load(scratch_file("config.cfg", first), &again);
	if (good)
		second = config_canonical(again);
	good = good && second && !strcmp(first, second) && !strcmp(config_id(config), config_id(again)) &&
	       !config_compare(config, again, &differences) && differences.count == 0;
	if (!good)
		printf("# %s\n", error_message());
	config_differences_release(&differences);
	config_free(again);
	free(first);
	free(second);
	return good;
}

static void test_presets(void)
{
	static const char *const presets[] = {
		"depth-demo", "depth-real", "depth-tiny", "depth-marigold-v1.1"};
	setenv("NIGHTSHIFT_DEMO_DATA", "/demo", 1);
	setenv("DATA", "/data", 1);
	for (size_t i = 0; i < 4; i++) {
		struct config *config = NULL;
		char path[256], what[128];
		snprintf(path, sizeof path, "slurm/presets/%s.cfg", presets[i]);
		struct config_layer layers[] = {{.text = path, .kind = LAYER_FILE},
			{.text = "data.train.extra.path=/x", .source = "word", .kind = LAYER_WORD}};
		snprintf(what, sizeof what, "preset %s composes and reads back bit-equal", presets[i]);
		int status = config_compose(layers, 2, &config);
		check_report(!status && round_trip(config), what, "%s", error_message());
		config_free(config);
	}
}

struct dice {
	struct random stream;
	uint64_t step;
};
static uint64_t roll(struct dice *dice, uint64_t bound)
{
	return random_below(dice->stream, dice->step++, 0, 0, bound);
}

/* Any bytes but NUL, many of them special. */
static void random_string(struct dice *dice, struct text *out)
{
	static const char *const parts[] = {
		"${", "$", "{", "}", "\"", "\\", "\n", "\t", "\x7f", "\xc3\xa9", "#", "/*", "a", " "};
	for (uint64_t count = roll(dice, 12); count > 0; count--) {
		char byte = (char)(1 + roll(dice, 255));
		if (roll(dice, 2))
			text_append(out, &byte, 1);
		else
			text_add(out, parts[roll(dice, sizeof parts / sizeof *parts)]);
	}
}

static void random_member(struct dice *dice, const struct config_key *row, struct text *out)
{
	double share = random_uniform(dice->stream, dice->step++, 0, 0);
	double value = row->minimum + share * (row->maximum - row->minimum);
	if (row->type == CONFIG_BOOL)
		text_add(out, roll(dice, 2) ? "true" : "false");
	else if (row->type == CONFIG_NUMBER || row->type == CONFIG_SECONDS)
		text_number(out, roll(dice, 3) ? value : fmax(floor(value), row->minimum));
	else
		text_format(out, "%" PRId64, (int64_t)floor(value));
}

static void random_choice(struct dice *dice, const struct config_key *row, const char *task, struct text *out)
{
	const char *here = row->choices;
	for (const struct config_task_key *at = config_task_keys; at->task; at++)
		if (!strcmp(at->task, task) && !strcmp(at->key, row->key) && at->choices)
			here = at->choices;
	char *choices = memory_text(here), *field[16];
	int count = choices ? text_split(choices, '|', field, 16) : 0;
	if (count > 0)
		text_add(out, field[roll(dice, (uint64_t)count)]);
	free(choices);
}

/* "${" of a literal string is written "$${" in a word. */
static void add_escaped(struct text *out, const char *string)
{
	for (const char *at = string; *at; at++)
		text_format(out, "%s%c", at[0] == '$' && at[1] == '{' ? "$" : "", *at);
}

static bool is_bound_by_checks(const char *key)
{
	static const char *const keys[] = {"model.widths", "model.heads", "model.attention",
		"model.norm_groups", "batch.size", "batch.micro", "schedule.warmup", "diffusion.beta_start",
		"diffusion.beta_end", "diffusion.prediction", "validate.steps", "predict.steps",
		"diffusion.timesteps", "memory", "data.cache", "batch.rest", "schedule.name",
		"schedule.milestones", "schedule.gamma", "optimizer.nesterov", "task", "clip.mean",
		"clip.std", "clip.jitter", "model.input"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

/* One word for about half of the keys that may take any value of their range. */
static void random_word(struct dice *dice, const struct config_key *row, const char *task, struct text *out)
{
	if (roll(dice, 2) || is_bound_by_checks(row->key) || !config_row_applies(row, task))
		return;
	text_format(out, "%s=", row->key);
	if (row->type == CONFIG_TEXT || row->type == CONFIG_PATH) {
		struct text string = {0};
		if (row->type == CONFIG_PATH)
			text_add(&string, "/p");
		random_string(dice, &string);
		add_escaped(out, string.data ? string.data : "");
		text_release(&string);
	} else if (row->type == CONFIG_CHOICE) {
		random_choice(dice, row, task, out);
	} else {
		random_member(dice, row, out);
	}
}

#define WORDS 256 /* more than there are keys */

static bool random_round_trip(struct dice *dice)
{
	static const char *const tasks[] = {"depth", "classify"};
	const char *task = tasks[roll(dice, 2)];
	struct text words[WORDS] = {{0}};
	struct config_layer layers[WORDS] = {{0}};
	struct config *config = NULL;
	struct text *path = &words[WORDS - 1], *bytes = &words[WORDS - 2], *system = &words[WORDS - 3];
	size_t count = 0;
	text_format(system, "task=%s", task);
	layers[count++].text = system->data;
	text_add(path, "data.train.g.path=/x");
	random_string(dice, path);
	if (strcmp(task, "depth"))
		text_add(bytes, "data.train.g.annotation=/a");
	else
		text_format(bytes, "data.cache=%" PRIu64, roll(dice, (uint64_t)1 << 50));
	for (char *at = path->data + strlen("data.train.g.path="); at && *at; at++)
		if (*at == '$')
			*at = 'S';
	layers[count++].text = path->data;
	layers[count++].text = bytes->data;
	for (int row = 0; config_keys[row].key && row < WORDS - 3; row++) {
		random_word(dice, &config_keys[row], task, &words[row]);
		if (words[row].length > 0)
			layers[count++].text = words[row].data;
	}
	for (size_t i = 0; i < count; i++) {
		layers[i].source = "word";
		layers[i].kind = LAYER_WORD;
	}
	bool good = !config_compose(layers, count, &config) && round_trip(config);
	config_free(config);
	for (size_t i = 0; i < WORDS; i++)
		text_release(&words[i]);
	return good;
}

static void test_random_configs(void)
{
	struct dice dice = {.stream = random_stream(SEED, "config")};
	int failed = -1;
	for (int i = 0; i < RANDOM_CONFIGS && failed < 0; i++)
		if (!random_round_trip(&dice))
			failed = i;
	check_report(failed < 0, "random configurations read back bit-equal", "seed %d, configuration %d: %s",
		SEED, failed, error_message());
}

/* The canonical text is part of the contract with people and scripts: its head, and how numbers are written. */
static void test_canonical(void)
{
	const char *const words[] = {"data.train.a.path=/a", "train.steps=5000000000", "optimizer.lr=0.1",
		"optimizer.clip=1", "init.ignore=a\"b\\\n${", "data.cache=2147483647"};
	static const char *const lines[] = {"\tsteps = 5000000000L;\n", "\tlr = 0.1;\n", "\tclip = 1.0;\n",
		"\tignore = \"a\\\"b\\\\\\x0a$${\";\n", "\tcache = 2147483647;\n", "\tval = ();\n",
		"\t\t\tname = \"a\";\n", "\twidths = [320, 640, 1280, 1280];\n"};
	struct config *config = NULL;
	const char *escaped[6];
	memcpy(escaped, words, sizeof escaped);
	escaped[4] = "init.ignore=a\"b\\\n$${";
	if (!check(!compose_words(escaped, 6, &config), "canonical: words compose"))
		return;
	char *canonical = config_canonical(config);
	check(canonical && text_starts(canonical, "format = 1;\ntask = \"depth\";\n"),
		"canonical: format comes first");
	for (size_t i = 0; canonical && i < sizeof lines / sizeof *lines; i++)
		check_report(strstr(canonical, lines[i]) != NULL, "canonical: how values are written",
			"missing: %s", lines[i]);
	free(canonical);
	config_free(config);
}

/* Each task has its keys, defaults and choices; config.cfg holds those alone. */
static void test_tasks(void)
{
	const char *const words[] = {
		"task=classify", "data.train.a.path=/a", "data.train.a.annotation=/b", "batch.size=24"};
	const char *const others[] = {
		"task=classify", "data.train.a.path=/a", "data.train.a.annotation=/b", "model.layers=2"};
	struct config *config = NULL, *again = NULL;
	if (!check(!compose_words(words, 4, &config), "tasks: classify composes"))
		return;
	check(!strcmp(config_text(config, "model.name"), "resnet") &&
			!strcmp(config_group_text(config, "data.train", 0, "layout"), "frames"),
		"tasks: defaults of their own");
	check(config_integer(config, "batch.micro") == 24, "tasks: a default that follows another key");
	char *canonical = config_canonical(config);
	check(canonical && strstr(canonical, "clip:\n{\n\tsize = 112;\n") &&
			!strstr(canonical, "diffusion") && !strstr(canonical, "widths") &&
			!strstr(canonical, "benchmark_crop"),
		"tasks: config.cfg has the keys of its task alone");
	check(!config_load(scratch_file("config.cfg", canonical ? canonical : ""), &again) &&
			!strcmp(config_id(config), config_id(again)),
		"tasks: config.cfg is read back with the same id");
	config_free(again);
	free(canonical);
	config_free(config);
	check(compose_words(others, 4, &config) == STATUS_CONFIG &&
			strstr(error_message(),
				"model.layers is a key of task depth; this run's task is classify"),
		"tasks: a key of another task");
	check(compose_words((const char *const[]){"data.train.a.path=/a", "model.name=resnet"}, 2, &config) ==
				STATUS_CONFIG &&
			strstr(error_message(), "model.name = resnet does not go with task depth"),
		"tasks: a choice of another task");
}

/* A run's own file: nothing that depends on other files or on the environment. */
static void test_load(void)
{
	struct config *config = NULL;
	check(config_load(scratch_file("config.cfg", DATA), &config) == STATUS_CONFIG &&
			strstr(error_message(), "format = 1; is missing"),
		"config.cfg without its format");
	check(config_load(scratch_file("config.cfg", "format = 1;\n@include \"x\"\n" DATA), &config) ==
				STATUS_CONFIG &&
			strstr(error_message(), "config.cfg:2: "),
		"config.cfg includes nothing");
	check(config_load(scratch_file("config.cfg", "format = 1;\nseed = \"${batch.size}\";" DATA),
		      &config) == STATUS_CONFIG &&
			strstr(error_message(), "config.cfg:2: references are not resolved here"),
		"config.cfg holds no references");
	check_status(config_load("/nowhere/config.cfg", &config), STATUS_NO_INPUT, "config.cfg is missing");
	check(config_load(scratch_file("config.cfg", "format = 1;\nseed = 1;\n" DATA "zeed = 3;"), &config) ==
				STATUS_CONFIG &&
			strstr(error_message(), "config.cfg:4: unknown key 'zeed'"),
		"a hand edit is named by its line");
	char large[256];
	snprintf(large, sizeof large, "%s/large.cfg", check_scratch());
	int descriptor = open(large, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	bool made = descriptor >= 0 && !ftruncate(descriptor, 2 << 20) && !close(descriptor);
	check(made && config_load(large, &config) == STATUS_DATA, "a file of megabytes is refused");
	check(config_load(check_scratch(), &config) != STATUS_OK, "a directory is no configuration");
	check(!config, "failures leave no configuration");
}

/* ===== identity ===== */

static char *id_of(const char *a, const char *b)
{
	const char *const words[] = {"data.train.a.path=/d/a", a, b};
	struct config *config = NULL;
	char *id = compose_words(words, b ? 3 : 2, &config) ? NULL : memory_text(config_id(config));
	config_free(config);
	return id;
}

static void check_id(const char *word, bool same, const char *name)
{
	char *before = id_of("data.train.a.list=/lists/one", NULL),
	     *after = id_of("data.train.a.list=/lists/one", word);
	check_report(before && after && strlen(before) == 16 && !strcmp(before, after) == same, name,
		"%s, %s (%s)", before, after, error_message());
	free(before);
	free(after);
}

static void test_identity(void)
{
	check_id("seed=1", false, "id: an identity key changes it");
	check_id("seed=2024", true, "id: a default said aloud does not");
	check_id("train.steps=7", true, "id: an operational key does not");
	check_id("data.train.b.path=/x", false, "id: another training set does");
	check_id("data.val.b.path=/x", false, "id: a validation set does");
	check_id("data.test.b.path=/x", true, "id: a test set does not");
	char *one = id_of("data.train.a.list=/lists/one", NULL),
	     *moved = id_of("data.train.a.list=/other/one", NULL);
	char *other = id_of("data.train.a.list=/lists/two", NULL);
	check(one && moved && !strcmp(one, moved), "id: a list may move");
	check(one && other && strcmp(one, other) != 0, "id: another list does");
	free(one);
	free(moved);
	free(other);
}

static void test_compare(void)
{
	const char *const before[] = {"data.train.a.path=/a", "data.train.b.path=/b", "seed=1"};
	const char *const after[] = {
		"data.train.a.path=/c/a", "data.train.c.path=/b", "seed=2", "data.train.c.weight=2"};
	static const struct {
		const char *key, *old, *new;
		bool identity;
	} wanted[] = {{"seed", "1", "2", true}, {"data.train", "a,b", "a,c", true},
		{"data.train.a.path", "/a", "/c/a", false}, {"data.train.b.path", "/b", "", false},
		{"data.train.c.path", "", "/b", false}, {"data.train.c.weight", "1", "2", true}};
	struct config *one = NULL, *two = NULL;
	struct config_differences differences = {0};
	bool good = !compose_words(before, 3, &one) && !compose_words(after, 4, &two) &&
		    !config_compare(one, two, &differences) && differences.count == 6;
	for (size_t i = 0; good && i < 6; i++) {
		const struct config_difference *item = &differences.item[i];
		good = !strcmp(item->key, wanted[i].key) && !strcmp(item->before, wanted[i].old) &&
		       !strcmp(item->after, wanted[i].new) && item->identity == wanted[i].identity;
		if (!good)
			printf("# %s %s -> %s %d\n", item->key, item->before, item->after, item->identity);
	}
	check_report(good, "differences are listed with their kind", "%zu: %s", differences.count,
		error_message());
	config_differences_release(&differences);
	config_free(one);
	config_free(two);
}

int main(void)
{
	test_table(config_keys, "config_keys");
	test_table(config_group_keys, "config_group_keys");
	test_getters();
	test_accepted();
	test_refused();
	test_refused_words();
	test_layers();
	test_environment();
	test_explosion();
	test_presets();
	test_random_configs();
	test_canonical();
	test_tasks();
	test_load();
	test_identity();
	test_compare();
	return check_summary();
}
