extern "C" __global__ void __launch_bounds__(384, 1)
gemm_128x176x64_bf16_f32(
    const bf16* __restrict__ A,
    const bf16* __restrict__ B,
    bf16* __restrict__ C,
    const __grid_constant__ TensorMap A_map,
    const __grid_constant__ TensorMap B_map,
    const __grid_constant__ TensorMap C_map) {
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* a_sh = reinterpret_cast<bf16*>(shared);
    bf16* b_sh = reinterpret_cast<bf16*>(shared + 65536);
    bf16* acc_sh = reinterpret_cast<bf16*>(shared + 155648);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 200704);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 200736);
    alignas(16) float acc[176];
    alignas(16) bf16 acc_sh_packed[8];
    if (threadIdx.x == 0) {
        prefetch_map(&A_map);
        prefetch_map(&B_map);
        prefetch_map(&C_map);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&empty[i], 1);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 4) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        registers_decrease<24>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_arrive<7, 384>();  // barriers are initialised before they are used
        if (thread == 0) {
            #pragma unroll 1
            for (int trip = 0; trip * blocks + block < 768; ++trip) {

                // MatMul(128, 176, 4096)(GL, GL, GL)(Block)
                const int tile = block + trip * blocks;
                const int tile_m = tile / 192 * 8 + tile % 8;
                const int tile_n = tile / 8 % 24;
                #pragma unroll 1
                for (int k = 0; k < 64; ++k) {
                    mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                    mbarrier_expect(&full[ring_slot], 38912);

                    // load A to a_sh: Move(128, 64)(GL, SH)(Block)
                    tma_load_2d(&a_sh[ring_slot * 8192], &A_map, &full[ring_slot], k * 64, tile_m * 128);

                    // load B to b_sh: Move(64, 176)(GL, SH)(Block)
                    tma_load_2d(&b_sh[ring_slot * 11264], &B_map, &full[ring_slot], k * 64, tile_n * 176);
                    if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
                }
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        registers_increase<240>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 384>();  // barriers are initialised before they are used
        const int warpgroup = __shfl_sync(0xffffffff, thread / 128, 0);
        const int warp = __shfl_sync(0xffffffff, thread / 32 % 4, 0);
        const int thread2 = thread % 128;
        ring_slot += warpgroup * 64;
        ring_parity ^= ring_slot / 4 & 1;
        ring_slot %= 4;
        if (warpgroup == 1) {
            barrier_arrive<8, 256>();  // the first main loop may begin
        }
        #pragma unroll 1
        for (int trip = 0; trip * blocks * 2 + block + warpgroup * blocks < 768; ++trip) {

            // MatMul(128, 176, 4096)(GL, GL, GL)(Block)
            const int tile = block + warpgroup * blocks + trip * blocks * 2;
            const int tile_m = tile / 192 * 8 + tile % 8;
            const int tile_n = tile / 8 % 24;
            if (warpgroup == 0) {
                barrier_sync<8, 256>();  // main loops take turns
            }
            if (warpgroup == 1) {
                barrier_sync<9, 256>();  // main loops take turns
            }
            #pragma unroll 1
            for (int k = 0; k < 64; ++k) {
                mbarrier_wait(&full[ring_slot], ring_parity);
                wgmma_fence();  // accumulators are registers

                // MatMul(128, 176, 64)(SH, SH, FR)(Warpgroup)
                #pragma unroll
                for (int k2 = 0; k2 < 4; ++k2) {
                    #pragma unroll
                    for (int m = 0; m < 2; ++m) {
                        wgmma_m64n176k16_f32_bf16<0, 0>(&acc[m * 88], wgmma_operand<1, 16, 1024>(&a_sh[ring_slot * 8192], m * 8192 + k2 * 32), wgmma_operand<1, 16, 1024>(&b_sh[ring_slot * 11264], k2 * 32), k != 0 || k2 != 0);
                    }
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (thread % 128 == 0 && k > 0) {
                    mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 3 : ring_slot - 1]);
                }
                if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
            }
            if (warpgroup == 0) {
                barrier_arrive<9, 256>();  // main loops take turns
            }
            if (warpgroup == 1) {
                barrier_arrive<8, 256>();  // main loops take turns
            }
            wgmma_wait<0>();
            if (thread % 128 == 0) {
                mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 3 : ring_slot - 1]);
            }
            ring_slot += 64;
            ring_parity ^= ring_slot / 4 & 1;
            ring_slot %= 4;

            // store C: Move(128, 176)(FR, GL)(Block)
            #pragma unroll
            for (int m3 = 0; m3 < 2; ++m3) {
                if (thread % 128 == 0) {
                    bulk_wait_read<0>();
                }
                sync_threads(1 + thread / 128, 128);  // acc_sh is read before it is overwritten

                // load acc to acc_sh: Move(64, 176)(FR, SH)(Warpgroup)
                #pragma unroll
                for (int n3 = 0; n3 < 11; ++n3) {
                    #pragma unroll
                    for (int e = 0; e < 8; ++e) {
                        acc_sh_packed[e] = float_to_bf16(acc[m3 * 88 + n3 * 8 + e]);
                    }
                    stmatrix_x4(&acc_sh[thread / 128 * 11264 + warp * 2816 + thread % 16 * 176 + n3 * 16 + thread / 16 % 2 * 8], &acc_sh_packed[0]);
                }
                fence_proxy_async();  // acc_sh is written before a bulk store reads it
                sync_threads(1 + thread / 128, 128);  // acc_sh is written before it is read
                if (thread2 < 1) {
                    tma_store_2d(&C_map, &acc_sh[thread / 128 * 11264], tile_n * 176, tile_m * 128 + m3 * 64);
                }
                if (thread % 128 == 0) {
                    bulk_commit();
                }
            }
        }
        bulk_wait_read<0>();
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm_128x168x64_bf16_f32(
    const bf16* __restrict__ A,
    const bf16* __restrict__ B,
    bf16* __restrict__ C,
    const __grid_constant__ TensorMap A_map,
    const __grid_constant__ TensorMap B_map,
    const __grid_constant__ TensorMap C_map) {
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* a_sh = reinterpret_cast<bf16*>(shared);
    bf16* b_sh = reinterpret_cast<bf16*>(shared + 81920);
    bf16* acc_sh = reinterpret_cast<bf16*>(shared + 189440);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 218112);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 218152);
    alignas(16) float acc[84];
    alignas(16) bf16 acc_sh_packed[4];
    if (threadIdx.x == 0) {
        prefetch_map(&A_map);
        prefetch_map(&B_map);
        prefetch_map(&C_map);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 5; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 5; ++i) {
            mbarrier_init(&empty[i], 2);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 4) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        registers_decrease<24>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_arrive<7, 384>();  // barriers are initialised before they are used
        if (thread == 0) {
            #pragma unroll 1
            for (int trip = 0; trip * blocks + block < 800; ++trip) {

                // MatMul(128, 168, 4096)(GL, GL, GL)(Block)
                const int tile = block + trip * blocks;
                const int tile_m = tile / 200 * 8 + tile % 8;
                const int tile_n = tile / 8 % 25;
                #pragma unroll 1
                for (int k = 0; k < 64; ++k) {
                    mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                    mbarrier_expect(&full[ring_slot], 37888);

                    // load A to a_sh: Move(128, 64)(GL, SH)(Block)
                    tma_load_2d(&a_sh[ring_slot * 8192], &A_map, &full[ring_slot], k * 64, tile_m * 128);

                    // load B to b_sh: Move(64, 168)(GL, SH)(Block)
                    tma_load_2d(&b_sh[ring_slot * 10752], &B_map, &full[ring_slot], k * 64, tile_n * 168);
                    if (++ring_slot == 5) ring_slot = 0, ring_parity ^= 1;
                }
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        registers_increase<240>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 384>();  // barriers are initialised before they are used
        const int warpgroup = __shfl_sync(0xffffffff, thread / 128, 0);
        const int warp = __shfl_sync(0xffffffff, thread / 32 % 4, 0);
        const int thread2 = thread % 128;
        #pragma unroll 1
        for (int trip = 0; trip * blocks + block < 800; ++trip) {

            // MatMul(128, 168, 4096)(GL, GL, GL)(Block)
            const int tile = block + trip * blocks;
            const int tile_m = tile / 200 * 8 + tile % 8;
            const int tile_n = tile / 8 % 25;
            #pragma unroll 1
            for (int k = 0; k < 64; ++k) {
                mbarrier_wait(&full[ring_slot], ring_parity);
                wgmma_fence();  // accumulators are registers

                // MatMul(64, 168, 64)(SH, SH, FR)(Warpgroup)
                #pragma unroll
                for (int k2 = 0; k2 < 4; ++k2) {
                    wgmma_m64n168k16_f32_bf16<0, 0>(&acc[0], wgmma_operand<1, 16, 1024>(&a_sh[ring_slot * 8192 + warpgroup * 4096], k2 * 32), wgmma_operand<1, 16, 1024>(&b_sh[ring_slot * 10752], k2 * 32), k != 0 || k2 != 0);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (thread % 128 == 0 && k > 0) {
                    mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 4 : ring_slot - 1]);
                }
                if (++ring_slot == 5) ring_slot = 0, ring_parity ^= 1;
            }
            wgmma_wait<0>();
            if (thread % 128 == 0) {
                mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 4 : ring_slot - 1]);
            }

            // store C: Move(128, 168)(FR, GL)(Block)
            #pragma unroll
            for (int n3 = 0; n3 < 3; ++n3) {
                if (thread % 128 == 0 && n3 == 0) {
                    bulk_wait_read<0>();
                }
                if (thread % 128 == 0 && n3 != 0) {
                    bulk_wait_read<1>();
                }
                sync_threads(1 + thread / 128, 128);  // acc_sh is read before it is overwritten

                // load acc to acc_sh: Move(64, 56)(FR, SH)(Warpgroup)
                #pragma unroll
                for (int n4 = 0; n4 < 7; ++n4) {
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        acc_sh_packed[e] = float_to_bf16(acc[n3 * 28 + n4 * 4 + e]);
                    }
                    stmatrix_x2(&acc_sh[n3 % 2 * 3584 + thread / 128 * 7168 + warp * 896 + thread % 16 * 56 + n4 * 8], &acc_sh_packed[0]);
                }
                fence_proxy_async();  // acc_sh is written before a bulk store reads it
                sync_threads(1 + thread / 128, 128);  // acc_sh is written before it is read
                if (thread2 < 1) {
                    tma_store_2d(&C_map, &acc_sh[n3 % 2 * 3584 + thread / 128 * 7168], tile_n * 168 + n3 * 56, tile_m * 128 + thread / 128 * 64);
                }
                if (thread % 128 == 0) {
                    bulk_commit();
                }
            }
        }
        bulk_wait_read<0>();
    }
}
