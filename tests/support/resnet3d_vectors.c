/* The vectors (spec/resnets3d.md sections 9.2 and 9.5) and their filling. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "support/resnet3d_vectors.h"

/* Each network: family, depth, classes, channels, shortcut, size and stride of the first convolution in time, max-pool, width
 * factor, k, cardinality, first trained module. */
/* clang-format off */
const struct resnet3d_vector resnet3d_vectors[] = {
	{"resnet-10 B",
		{RESNET3D_RESNET, 10, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.12827233, -0.049829762, -0.096809316, -0.012690458}, .sum = -1.1106663, .loss = 2.3187883,
		.losses = {2.3294320, 2.3275899, 2.3240913}, .norm = 13.597792, .first = 11.780904,
		.after = {-0.12827579, -0.047411195, -0.092302835, -0.015285306}, .mean = 0.71708386, .variance = 376.22161, .last_norm = "layer4.0.downsample.1"},
	{"resnet-10 A detached",
		{RESNET3D_RESNET, 10, 10, 3, RESNET3D_SHORTCUT_A_DETACHED, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.092439255, 0.048171431, -0.051092881, -0.0086903175}, .sum = -0.84570082, .loss = 2.3142223,
		.losses = {2.3185044, 2.3180248, 2.3171136}, .norm = 6.9327439, .first = 4.1848873},
	{"resnet-18 B",
		{RESNET3D_RESNET, 18, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.21517979, -0.045216382, -0.090456977, -0.10406295}, .sum = -1.6768743, .loss = 2.3809250,
		.losses = {2.3949554, 2.3872784, 2.3737643}, .norm = 28.168837, .first = 24.322148,
		.after = {-0.21441651, -0.050198797, -0.092026938, -0.10557356}, .mean = -0.19151184, .variance = 374.15989, .last_norm = "layer4.1.bn2"},
	{"resnet-18 B, kt 3, t-stride 2, no max-pool",
		{RESNET3D_RESNET, 18, 10, 3, RESNET3D_SHORTCUT_B, 3, 2, false, 1, 2, 32},
		.shape = {2, 3, 16, 32, 32},
		.eval = {-0.21522165, -0.045309498, -0.090495953, -0.10406691}, .sum = -1.6770563, .loss = 2.3809424,
		.losses = {2.3669959, 2.3639309, 2.3581308}, .norm = 17.500704, .first = 11.796518},
	{"resnet-18 B, widen 0.5, 2 channels",
		{RESNET3D_RESNET, 18, 10, 2, RESNET3D_SHORTCUT_B, 7, 1, true, 0.5, 2, 32},
		.shape = {2, 2, 16, 64, 64},
		.eval = {0.0077974308, -0.00055975518, 0.016739640, -0.057826545}, .sum = -0.80866086, .loss = 2.2886587,
		.losses = {2.2972699, 2.2942537, 2.2885558}, .norm = 17.415037, .first = 14.937046},
	{"resnet-34 B",
		{RESNET3D_RESNET, 34, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.14220567, -0.053926586, -0.11772455, -0.065762071}, .sum = -1.3527401, .loss = 2.3425420,
		.losses = {2.3418409, 2.3225367, 2.2888054}, .norm = 44.717366, .first = 38.159504,
		.after = {-0.14878450, -0.058644597, -0.12259759, -0.066138307}, .mean = 0.057128662, .variance = 374.19813, .last_norm = "layer4.2.bn2"},
	{"resnet-50 B",
		{RESNET3D_RESNET, 50, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.12150806, -0.15061191, -0.096118293, -0.031157005}, .sum = -0.0052714308, .loss = 2.3890281,
		.losses = {2.3867359, 2.2474229, 2.1561057}, .norm = 452.81254, .first = 443.31977,
		.after = {-0.12088971, -0.14786799, -0.099177878, -0.010794543}, .mean = -0.14910086, .variance = 1497.8483, .last_norm = "layer4.2.bn3"},
	{"resnet-50 A detached",
		{RESNET3D_RESNET, 50, 10, 3, RESNET3D_SHORTCUT_A_DETACHED, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.073459121, -0.19971432, -0.10555676, 0.029408196}, .sum = 0.55087710, .loss = 2.3740760,
		.losses = {2.4976250, 2.4233620, 2.3482541}, .norm = 98.956128, .first = 94.370685},
	{"resnet2p1d-18 B",
		{RESNET3D_RESNET2P1D, 18, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {0.010554390, -0.047932235, -0.040186834, -0.065880996}, .sum = -0.78196685, .loss = 2.2925944,
		.losses = {2.2891079, 2.2451731, 2.1834616}, .norm = 72.934175, .first = 62.380497,
		.after = {0.013323505, -0.038527864, -0.035970171, -0.072043775}, .mean = -0.19877320, .variance = 376.96673, .last_norm = "layer4.1.bn2_t"},
	{"resnet2p1d-50 B",
		{RESNET3D_RESNET2P1D, 50, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.12088783, -0.15246774, -0.093023657, -0.038137677}, .sum = -0.18570538, .loss = 2.3834532,
		.losses = {2.4213540, 2.3849216, 2.3627057}, .norm = 1768.7456, .first = 1635.3221},
	{"preresnet-18 B",
		{RESNET3D_PRERESNET, 18, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.044370202, -0.15490314, -0.048833029, -0.044718906}, .sum = -1.2599687, .loss = 2.2851502,
		.losses = {2.2804507, 2.2776816, 2.2724490}, .norm = 16.652759, .first = 15.272590,
		.after = {-0.044722492, -0.15260905, -0.049780235, -0.043475074}, .mean = -0.0015476774, .variance = 374.15417, .last_norm = "layer4.1.bn2"},
	{"preresnet-50 B",
		{RESNET3D_PRERESNET, 50, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.056593777, -0.096697783, -0.060113212, -0.12434410}, .sum = -0.46592378, .loss = 2.3750871,
		.losses = {2.3418644, 2.3279361, 2.3033842}, .norm = 37.823377, .first = 36.011614},
	{"wideresnet-50 k2 B",
		{RESNET3D_WIDERESNET, 50, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.12076656, -0.13255528, -0.10182811, -0.006223143}, .sum = -0.10022716, .loss = 2.3706106,
		.losses = {2.4248002, 2.2555837, 2.1066463}, .norm = 661.34093, .first = 648.07957},
	{"resnext-50 c32 B",
		{RESNET3D_RESNEXT, 50, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.12223643, -0.13381667, -0.10384146, -0.0051005567}, .sum = -0.10214726, .loss = 2.3707103,
		.losses = {2.4916876, 2.2452903, 2.1163602}, .norm = 621.49476, .first = 609.68175},
	{"densenet-121",
		{RESNET3D_DENSENET, 121, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32},
		.shape = {2, 3, 16, 64, 64},
		.eval = {-0.15025377, 0.028651997, -0.029277331, 0.084020659}, .sum = 0.40143609, .loss = 2.3602367,
		.losses = {2.3190175, 2.3138463, 2.3050260}, .norm = 23.095673, .first = 22.585672,
		.after = {-0.14845850, 0.026606845, -0.024900473, 0.081022779}, .mean = 0.34495042, .variance = 751.56818, .last_norm = "features.norm5"},
	{"case 1: resnet-10 B, widen 0.125",
		{RESNET3D_RESNET, 10, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 0.125, 2, 32},
		.parameters = 233474, .shape = {2, 3, 16, 64, 64},
		.eval = {-0.043689161, -0.059899648, 0.062020765, -0.057786195}, .sum = -0.37817349, .loss = 2.3354943,
		.losses = {2.3042583, 2.3039564, 2.3033829}, .norm = 5.4957037, .first = 4.78311,
		.after = {-0.048526801, -0.062944701, 0.057256613, -0.054527023}, .mean = -0.13197169, .variance = 47.224905, .last_norm = "layer4.0.downsample.1",
		.first_norm = {-0.0026394865, 6.860552}},
	{"case 2: resnet-10 A, widen 0.125",
		{RESNET3D_RESNET, 10, 10, 3, RESNET3D_SHORTCUT_A, 7, 1, true, 0.125, 2, 32},
		.parameters = 230562, .shape = {2, 3, 16, 64, 64},
		.eval = {-0.098531684, -0.081152473, 0.035475764, -0.09027018}, .sum = -0.69246725, .loss = 2.3654327,
		.losses = {2.3910549, 2.3908723, 2.3905258}, .norm = 4.2747493, .first = 3.3871635,
		.after = {-0.097928019, -0.082347822, 0.034438129, -0.091161374}, .mean = 0.019439023, .variance = 46.786793, .last_norm = "layer4.0.bn2",
		.first_norm = {-0.0026395146, 6.8605522}},
	{"case 3: resnet-18 B, widen 0.25, kt 3",
		{RESNET3D_RESNET, 18, 10, 3, RESNET3D_SHORTCUT_B, 3, 1, true, 0.25, 2, 32},
		.parameters = 2081274, .shape = {3, 3, 5, 37, 75},
		.eval = {-0.071676248, -0.017083531, -0.19575096, -0.018629679}, .sum = -1.2446838, .loss = 2.3308702,
		.losses = {2.3259732, 2.3256309, 2.3249867}, .norm = 5.8576159, .first = 4.1355933,
		.after = {-0.069222919, -0.020155151, -0.19183126, -0.020373723}, .mean = 0.13619632, .variance = 93.602838, .last_norm = "layer4.1.bn2",
		.first_norm = {-0.0058861062, 12.625252}},
	{"case 4: resnet-10 B, widen 0.125, kt 4",
		{RESNET3D_RESNET, 10, 10, 3, RESNET3D_SHORTCUT_B, 4, 1, true, 0.125, 2, 32},
		.parameters = 229946, .shape = {2, 3, 6, 64, 64},
		.eval = {-0.043504811, -0.057962069, 0.061730458, -0.056139215}, .sum = -0.36894669, .loss = 2.3349976,
		.losses = {2.3388986, 2.3387212, 2.3383842}, .norm = 4.2126153, .first = 3.2470507,
		.after = {-0.050730578, -0.06379872, 0.057387381, -0.053477518}, .mean = -0.27320206, .variance = 47.295292, .last_norm = "layer4.0.downsample.1",
		.first_norm = {-0.010227071, 6.7408197}},
	{"case 5: resnet-50 B, widen 0.125",
		{RESNET3D_RESNET, 50, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 0.125, 2, 32},
		.parameters = 737442, .shape = {4, 3, 8, 64, 64},
		.eval = {0.019846257, 0.027358966, -0.082132617, -0.069264725}, .sum = -0.18161663, .loss = 2.2945287,
		.losses = {2.2586946, 2.2130934, 2.1698709}, .norm = 91.478336, .first = 88.327297,
		.after = {0.013390826, 0.01769987, -0.083492314, -0.080798351}, .mean = -0.25191047, .variance = 187.17222, .last_norm = "layer4.2.bn3",
		.first_norm = {-0.0014404437, 6.7359546}},
	{"case 6: resnet2p1d-10 B, widen 0.25, kt 3, 2 channels",
		{RESNET3D_RESNET2P1D, 10, 10, 2, RESNET3D_SHORTCUT_B, 3, 1, true, 0.25, 2, 32},
		.parameters = 904878, .shape = {2, 2, 8, 64, 64},
		.eval = {0.062905951, 0.020150242, -0.041512412, -0.010484946}, .sum = -0.21312375, .loss = 2.2682577,
		.losses = {2.2496254, 2.2482704, 2.2457182}, .norm = 11.641567, .first = 9.8615081,
		.after = {0.06075436, 0.020724471, -0.037057356, -0.0048883943}, .mean = 0.53284657, .variance = 94.081891, .last_norm = "layer4.0.downsample.1",
		.first_norm = {-0.014269751, 27.012922}},
	{"case 7: preresnet-10 A",
		{RESNET3D_PRERESNET, 10, 10, 3, RESNET3D_SHORTCUT_A, 7, 1, true, 1, 2, 32},
		.parameters = 14229834, .shape = {2, 3, 8, 64, 64},
		.eval = {-0.033331587, -0.027377012, -0.014070066, -0.081730772}, .sum = -0.80806063, .loss = 2.3223292,
		.losses = {2.3409392, 2.340175, 2.3387235}, .norm = 8.7448432, .first = 7.5794883,
		.after = {-0.036687351, -0.028615832, -0.01208723, -0.079878246}, .mean = -0.64338041, .variance = 373.78532, .last_norm = "layer4.0.bn2",
		.first_norm = {-0.00030866626, 47.569524}},
	{"case 8: resnext-50 B, cardinality 8",
		{RESNET3D_RESNEXT, 50, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 8},
		.parameters = 8725898, .shape = {2, 3, 8, 64, 64},
		.eval = {-0.12439342, -0.12880215, -0.10806436, -0.032390368}, .sum = -0.070626428, .loss = 2.3872954,
		.losses = {2.4231674, 2.4661235, 2.3807233}, .norm = 888.94266, .first = 883.40297,
		.after = {-0.12768492, -0.13284508, -0.10897912, -0.015218093}, .mean = 0.2395463, .variance = 1495.1835, .last_norm = "layer4.2.bn3",
		.first_norm = {-0.0031435807, 94.220424}},
	{"case 9: densenet-121, kt 3, t-stride 2, no max-pool",
		{RESNET3D_DENSENET, 121, 10, 3, RESNET3D_SHORTCUT_B, 3, 2, false, 1, 2, 32},
		.parameters = 11259146, .shape = {2, 3, 16, 32, 32},
		.eval = {-0.15027447, 0.028631217, -0.0292905, 0.084012784}, .sum = 0.40132713, .loss = 2.360246,
		.losses = {2.3504112, 2.3482327, 2.3441263}, .norm = 14.867891, .first = 13.658859,
		.after = {-0.14792155, 0.026514889, -0.024823356, 0.08126344}, .mean = 0.32270419, .variance = 751.45937, .last_norm = "features.norm5",
		.first_norm = {0.011870237, 47.698529}},
	{"case 10: wideresnet-50 B, k 1, kt 3",
		{RESNET3D_WIDERESNET, 50, 10, 3, RESNET3D_SHORTCUT_B, 3, 1, true, 1, 1, 32},
		.parameters = 39402442, .shape = {2, 3, 8, 64, 64},
		.eval = {-0.086942563, -0.10188722, -0.19837473, -0.038178488}, .sum = -1.9002616, .loss = 2.2714222,
		.losses = {2.2939074, 2.1493473, 2.0925343}, .norm = 350.21483, .first = 333.69915,
		.after = {-0.079613886, -0.10005973, -0.19672598, -0.035114003}, .mean = -0.13340137, .variance = 751.45013, .last_norm = "layer4.2.bn3",
		.first_norm = {0.0027792776, 47.723878}},
	{"case 11: resnet-10 A",
		{RESNET3D_RESNET, 10, 10, 3, RESNET3D_SHORTCUT_A, 7, 1, true, 1, 2, 32},
		.parameters = 14230730, .shape = {2, 3, 16, 64, 64},
		.eval = {-0.092439255, 0.048171431, -0.051092881, -0.0086903175}, .sum = -0.84570082, .loss = 2.3142223,
		.losses = {2.3185044, 2.3174796, 2.3155346}, .norm = 10.123132, .first = 7.9739992,
		.after = {-0.091324681, 0.045579103, -0.048958887, -0.009942122}, .mean = -0.47497283, .variance = 374.14873, .last_norm = "layer4.0.bn2",
		.first_norm = {-6.7606498e-05, 47.693857}},
	{"case 12: resnet-18 A",
		{RESNET3D_RESNET, 18, 10, 3, RESNET3D_SHORTCUT_A, 7, 1, true, 1, 2, 32},
		.parameters = 33035210, .shape = {2, 3, 16, 64, 64},
		.eval = {-0.21011954, 0.026021234, -0.050822423, -0.020188316}, .sum = -1.21692, .loss = 2.3629011,
		.losses = {2.2884728, 2.2845153, 2.2770552}, .norm = 19.935998, .first = 16.198609,
		.after = {-0.20453154, 0.02497227, -0.049698272, -0.01669534}, .mean = -0.12951444, .variance = 374.13368, .last_norm = "layer4.1.bn2",
		.first_norm = {-6.7505757e-05, 47.693857}},
	{"case 13: resnet-50 A",
		{RESNET3D_RESNET, 50, 10, 3, RESNET3D_SHORTCUT_A, 7, 1, true, 1, 2, 32},
		.parameters = 43442890, .shape = {2, 3, 16, 64, 64},
		.eval = {-0.073459121, -0.19971432, -0.10555676, 0.029408196}, .sum = 0.5508771, .loss = 2.374076,
		.losses = {2.497625, 2.2303595, 2.0050401}, .norm = 247.18524, .first = 240.84999,
		.after = {-0.062638562, -0.20071414, -0.11549562, 0.034791172}, .mean = -0.069757751, .variance = 1497.8368, .last_norm = "layer4.2.bn3",
		.first_norm = {-6.8541522e-05, 47.693859}},
	{"case 14: resnet-10 B, trained from layer4",
		{RESNET3D_RESNET, 10, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 1, 2, 32, "layer4"},
		.parameters = 14404554, .shape = {2, 3, 16, 64, 64},
		.eval = {-0.12827233, -0.049829762, -0.096809316, -0.012690458}, .sum = -1.1106663, .loss = 2.3187883,
		.losses = {2.329432, 2.3292309, 2.328849}, .norm = 4.4845802, .first = 11.780904,
		.after = {-0.12827799, -0.047409449, -0.092305128, -0.015285881}, .mean = 0.71737935, .variance = 376.22147, .last_norm = "layer4.0.downsample.1",
		.first_norm = {-6.7700586e-05, 47.693857}},
	{"case 15: resnet-10 B, widen 0.125, trained from fc",
		{RESNET3D_RESNET, 10, 10, 3, RESNET3D_SHORTCUT_B, 7, 1, true, 0.125, 2, 32, "fc"},
		.parameters = 233474, .shape = {2, 3, 16, 64, 64},
		.eval = {-0.043689161, -0.059899648, 0.062020765, -0.057786195}, .sum = -0.37817349, .loss = 2.3354943,
		.losses = {2.3042583, 2.3042453, 2.3042205}, .norm = 1.141275, .first = 4.78311,
		.after = {-0.048529807, -0.062946475, 0.057258351, -0.05453145}, .mean = -0.13193524, .variance = 47.224984, .last_norm = "layer4.0.downsample.1",
		.first_norm = {-0.0026395355, 6.8605522}},
	{0}};
/* clang-format on */

static uint64_t name_hash(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
	return hash;
}

static double uniform_of(uint64_t hash, size_t i)
{
	uint64_t z = hash + (i + 1) * 0x9E3779B97F4A7C15;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
	z = (z ^ z >> 27) * 0x94D049BB133111EB;
	z ^= z >> 31;
	return (double)(z >> 11) * 0x1p-53;
}

double resnet3d_uniform(const char *name, size_t i)
{
	return uniform_of(name_hash(name), i);
}

/* offset + scale u */
static void formula_of(const struct parameter *parameter, double *offset, double *scale)
{
	double half; /* of an interval around 0 */

	if (parameter->statistic) {
		*offset = text_ends(parameter->name, "var");
		*scale = 0;
		return;
	}
	if (parameter->dims == 1 && text_ends(parameter->name, "weight")) {
		*offset = 0.1;
		*scale = 0.2;
		return;
	}
	if (parameter->dims == 5)
		half = sqrt(6 / ((double)parameter->count / (double)parameter->dim[1]));
	else if (parameter->dims == 2)
		half = 1 / sqrt((double)parameter->dim[1]);
	else
		half = text_starts(parameter->name, "fc.") || text_starts(parameter->name, "classifier.")
			       ? 0.1
			       : 0.2;
	*offset = -half;
	*scale = 2 * half;
}

void resnet3d_fill_tensor(const struct parameter *parameter, float *values)
{
	uint64_t hash = name_hash(parameter->name);
	double offset, scale;

	formula_of(parameter, &offset, &scale);
	for (size_t i = 0; i < parameter->count; i++)
		values[i] = (float)(offset + scale * uniform_of(hash, i));
}

int resnet3d_fill(struct store *store)
{
	int status = STATUS_OK;

	for (size_t i = 0; i < store_count(store) && !status; i++) {
		const struct parameter *parameter = store_parameter(store, i);
		float *values = memory_new(parameter->count, sizeof(*values));

		if (!values)
			return error_status();
		resnet3d_fill_tensor(parameter, values);
		status = store_import(store, i, SLOT_VALUE, values);
		free(values);
	}
	return status;
}
