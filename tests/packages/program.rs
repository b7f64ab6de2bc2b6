// SPDX-License-Identifier: GPL-2.0-or-later
// What program.c does, in Rust, by bindgen's bindings of the installed headers: two vCPUs of one tenant on one pCPU of the
// emulator PMU. rust.sh compiles it.
#![allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals, deref_nullptr)]
include!(env!("VPMU_BINDINGS"));

use std::mem::zeroed;
use std::os::raw::c_int;
use std::ptr::null_mut;

#[link(name = "urcu-memb")]
extern "C" {
    fn urcu_memb_register_thread();
    fn urcu_memb_unregister_thread();
}

fn ok(rc: c_int, what: &str) {
    if rc != 0 {
        println!("{}: error {}", what, rc);
        std::process::exit(1);
    }
}

// vpmu_emu_add() is inline, and bindgen leaves such functions out.
unsafe fn user_instructions(t: *mut vpmu_emu_tally, n: u64) {
    for row in [
        vpmu_emu_mode_VPMU_EMU_USR,
        vpmu_emu_row_VPMU_EMU_ROW_OS_USR,
        vpmu_emu_row_VPMU_EMU_ROW_USR_HOST,
        vpmu_emu_row_VPMU_EMU_ROW_ALL,
    ] {
        (*t).ev[row as usize][vpmu_emu_event_VPMU_EMU_INSTRUCTIONS as usize] += n;
    }
}

fn main() {
    unsafe {
        urcu_memb_register_thread();
        let host = vpmu_host_create();
        let mut pmu: vpmu_emupmu = zeroed();
        let mut pcpu: *mut vpmu_pcpu = null_mut();
        let mut tenant: *mut vpmu_account = null_mut();
        let mut vcpu: [*mut vpmu_account; 2] = [null_mut(); 2];
        let mut ctx: [vpmu_context; 2] = zeroed();
        let mut of: [vpmu_consumer; 2] = zeroed();
        let mut v: [vpmu_value; 2] = zeroed();
        let mut key: vpmu_key_t = 0;
        let mut err = [0; 200];

        ok(vpmu_emupmu_init(&mut pmu, null_mut()), "emupmu");
        ok(vpmu_pcpu_create(host, &mut pmu.pmu, 0, &mut pcpu), "pcpu");
        ok(vpmu_account_create(vpmu_host_root(host), null_mut(), &mut tenant), "tenant");
        ok(vpmu_event_parse(b"instructions\0".as_ptr().cast(), vpmu_event_host_space(), &mut key, err.as_mut_ptr(), 200), "event");
        for i in 0..2 {
            ok(vpmu_account_create(tenant, null_mut(), &mut vcpu[i]), "vcpu");
            ok(vpmu_context_init(&mut ctx[i], vcpu[i], tenant.cast()), "context");
            ok(vpmu_context_place(&mut ctx[i], pcpu), "place");
        }
        ok(vpmu_consumer_add(&mut of[0], vcpu[0], key, null_mut()), "consumer");
        ok(vpmu_consumer_add(&mut of[1], tenant, key, null_mut()), "consumer");
        for i in 0..2 {
            vpmu_pcpu_switch(pcpu, &mut ctx[i]);
            user_instructions(pmu.tally, if i == 0 { 100 } else { 50 });
        }
        vpmu_pcpu_switch(pcpu, null_mut());
        for i in 0..2 {
            vpmu_consumer_del(&mut of[i], null_mut(), &mut v[i]);
        }
        println!("vcpu {}, tenant {}", v[0].count, v[1].count);
        for c in ctx.iter_mut() {
            vpmu_context_fini(c);
        }
        ok(vpmu_pcpu_destroy(pcpu), "pcpu");
        vpmu_host_destroy(host);
        urcu_memb_unregister_thread();
    }
}
