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
