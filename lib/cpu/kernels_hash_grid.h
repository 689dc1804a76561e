/* The hash grid: corners of cells for a vector of points, rows of the table for each. */

/* Truncated towards minus infinity; the integer wraps as unsigned ones do. */
INLINE vector_bits hash_floor(vector p, vector *fraction)
{
	const vector_bits cut = __builtin_convertvector(p, vector_bits);
	const vector below = __builtin_convertvector(cut, vector);
	const vector_bits cell = cut + (vector_bits)(below > p); /* a mask is -1 */
	*fraction = p - __builtin_convertvector(cell, vector);
	return cell;
}

/* fma(scale, u, 0.5), rounded once on every instruction set. */
INLINE vector hash_position(float scale, vector u)
{
#ifdef VECTOR_IS_FUSED
	return fused(splat(scale), u, splat(0.5f));
#else
	vector p;
	for (int i = 0; i < LANES; i++)
		p[i] = fmaf(scale, u[i], 0.5f);
	return p;
#endif
}

INLINE void hash_vector(const struct hash_points *points, int64_t i)
{
	typedef uint32_t words __attribute__((vector_size(4 * LANES)));
	const struct hash_level *level = points->level;
	words cell[3];
	vector fraction[3], other[3];
	for (int axis = 0; axis < 3; axis++) {
		const vector p = hash_position(level->scale, load(points->u[axis] + i));
		cell[axis] = (words)hash_floor(p, &fraction[axis]);
		other[axis] = 1.0f - fraction[axis];
		if (points->fraction[axis])
			store(points->fraction[axis] + i, fraction[axis]);
	}
	for (int corner = 0; corner < 8; corner++) {
		const int dx = corner & 1, dy = corner >> 1 & 1, dz = corner >> 2;
		const words x = cell[0] + (uint32_t)dx, y = cell[1] + (uint32_t)dy,
			    z = cell[2] + (uint32_t)dz;
		words row = level->dense ? x + level->resolution * (y + level->resolution * z)
					 : x ^ y * 2654435761u ^ z * 805459861u;
		uint32_t *to = points->row + corner * HASH_BLOCK + i;
		if (!level->dense)
			row &= level->entries - 1;
		store((float *)to, (vector)row);
		for (int k = 0; k < LANES && level->dense; k++)
			if (to[k] >= level->entries)
				to[k] %= level->entries;
		store(points->weight + corner * HASH_BLOCK + i, (dx ? fraction[0] : other[0]) *
									(dy ? fraction[1] : other[1]) *
									(dz ? fraction[2] : other[2]));
	}
}

/* Arrays hold HASH_BLOCK points, so that the last vector may go beyond count. */
static void hash_corners(const struct hash_points *points)
{
	for (int64_t i = 0; i < points->count; i += LANES)
		hash_vector(points, i);
}

INLINE void hash_read_loop(
	const struct hash_points *points, const float *table, float *y, int64_t stride, const int features)
{
	for (int64_t i = 0; i < points->count; i++) {
		float sum[8] = {0};
		for (int corner = 0; corner < 8; corner++) {
			const float *row =
				table + (size_t)points->row[corner * HASH_BLOCK + i] * (size_t)features;
			const float weight = points->weight[corner * HASH_BLOCK + i];
			for (int f = 0; f < features; f++)
				sum[f] += weight * row[f];
		}
		for (int f = 0; f < features; f++)
			y[i * stride + f] = sum[f];
	}
}

static void hash_read(
	const struct hash_points *points, const float *table, float *y, int64_t stride, int features)
{
	switch (features) {
	case 1:
		hash_read_loop(points, table, y, stride, 1);
		break;
	case 2:
		hash_read_loop(points, table, y, stride, 2);
		break;
	case 4:
		hash_read_loop(points, table, y, stride, 4);
		break;
	default:
		hash_read_loop(points, table, y, stride, 8);
		break;
	}
}

INLINE void hash_add_loop(const struct hash_points *points, float *table, const float *dy, int64_t stride,
	uint32_t first, uint32_t end, const int features)
{
	for (int64_t i = 0; i < points->count; i++) {
		for (int corner = 0; corner < 8; corner++) {
			const uint32_t at = points->row[corner * HASH_BLOCK + i];
			const float weight = points->weight[corner * HASH_BLOCK + i];
			float *row = table + (size_t)at * (size_t)features;
			if (at < first || at >= end)
				continue;
			for (int f = 0; f < features; f++)
				row[f] += weight * dy[i * stride + f];
		}
	}
}

static void hash_add(const struct hash_points *points, float *table, const float *dy, int64_t stride,
	uint32_t first, uint32_t end, int features)
{
	switch (features) {
	case 1:
		hash_add_loop(points, table, dy, stride, first, end, 1);
		break;
	case 2:
		hash_add_loop(points, table, dy, stride, first, end, 2);
		break;
	case 4:
		hash_add_loop(points, table, dy, stride, first, end, 4);
		break;
	default:
		hash_add_loop(points, table, dy, stride, first, end, 8);
		break;
	}
}
