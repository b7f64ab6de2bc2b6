// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer target: a guest of the emulator that has the devices of a stock kernel reads and
 * writes the input's ports and addresses without RAM, in all sizes, with and without
 * interrupts of the serial port, while the host sends it input and makes accesses on the bus of
 * another vCPU in between. Only the APICs are left to fuzz_chip. Each input runs twice: in the
 * second run the VM is saved to a file and goes on in a new VM that was restored from the file, as
 * often as the input has it.
 *
 * Must hold: no crash, no undefined behaviour, no leak; IN changes the bytes of RAX that it should,
 * and no value has more bits than its access; lines of the console have up to SERIAL_LINE_MAX
 * bytes; the VM goes on, or ends with one line. The restored VM prints, reads and ends as the one
 * that stayed, and both are the same file at the end.
 */
#include <unistd.h>

#include "tests/elf_image.h"
#include "tests/fuzz/fuzz_machine.h"
#include "vmm/engine/platform.h"
#include "vmm/machine/priv.h"

#define AT	0x200000u    /* of the image */
#define SLOTS	(AT + 0x400) /* code of the records, then the end */
#define SLOT	48	     /* bytes for one record */
#define RECORDS 64
#define IDT	(AT + 0x2000)
#define LOG	0x300000u /* the value read: RAX, and the former RAX with the access' size */
#define LOG_END 0x320000u
#define SCRATCH 0x3e1000u

#define ACTIONS	  16
#define SLICES	  3 /* between two actions */
#define INPUT_MAX 64

/* Before each IN: RAX has this, and the log the same with the size in its lowest byte. */
#define BEFORE 0x1122334455667700ULL

/*
 * How the guest begins: an IDT, the local APIC on, the I/O APIC's pin 4 (COM1) gives vector 40H,
 * and the UART's interrupt output is connected. Then the records. RDI is the log. The handler of
 * the interrupt reads the pending source, the received byte and the line's status.
 */
asm(".pushsection .rodata\n"
    ".global guest_begin, guest_begin_end, guest_irq\n"
    "guest_begin: lidt 4f(%rip)\n mov $0x3f0000, %esp\n"
    "mov $0xfee000f0, %ecx\n movl $0x1ff, (%rcx)\n"
    "mov $0xfec00000, %ecx\n movl $0x18, (%rcx)\n movl $0x40, 0x10(%rcx)\n"
    "movl $0x19, (%rcx)\n movl $0, 0x10(%rcx)\n"
    "mov $0x3fc, %edx\n mov $0x0b, %al\n out %al, %dx\n"
    "mov $0x300000, %edi\n jmp guest_begin + 0x400\n"
    "guest_irq: push %rax\n push %rdx\n push %rcx\n"
    "mov $0x3fa, %edx\n in %dx, %al\n add %al, 0x3e0000\n"
    "mov $0x3f8, %edx\n in %dx, %al\n add %al, 0x3e0001\n"
    "mov $0x3fd, %edx\n in %dx, %al\n add %al, 0x3e0002\n"
    "incl 0x3e0008\n"
    "mov $0xfee000b0, %ecx\n movl $0, (%rcx)\n"
    "pop %rcx\n pop %rdx\n pop %rax\n iretq\n"
    "4: .word 0xfff\n .quad 0x202000\n"
    "guest_begin_end: .popsection");
extern const uint8_t guest_begin[], guest_begin_end[], guest_irq[];

struct record {
	uint8_t kind, a, b, c;
};

struct outcome {
	uint64_t digest; /* of the console's lines and of the host's reads */
	enum vm_state state;
	enum vm_how how;
	char reason[VM_REASON_MAX];
	uint8_t *file; /* of the VM at the end, if it has not ended; FILE_MAX bytes */
	size_t bytes;
};

static int image_fd;
static struct outcome *running;

static void digest(const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		running->digest = (running->digest ^ b[i]) * 0x100000001b3ULL;
}

static void on_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len,
		       void *arg)
{
	CHECK(len <= SERIAL_LINE_MAX, "a line of %zu bytes", len);
	digest(&len, sizeof(len));
	digest(line, len);
}

/* ---- the guest ---- */

static uint16_t port_of(const struct record *r)
{
	static const uint16_t some[] = {
		0x3f8, 0x3f9, 0x3fa, 0x3fb, 0x3fc, 0x3fd, 0x3fe,  0x3ff,  0x3f7,
		0x3f5, 0x400, 0x600, 0x601, 0x602, 0x5ff, 0xcf8,  0xcf9,  0xcfa,
		0xcfb, 0xcfc, 0xcfd, 0xcfe, 0xcff, 0xcf7, 0xcf5,  0xd00,  0x64,
		0x60,  0x63,  0xf4,  0x33,  0x70,  0x71,  0xfffd, 0xffff, 0x80,
	};

	return r->a < 0xe0 ? some[r->a % (sizeof(some) / sizeof(some[0]))]
			   : (uint16_t)(r->a << 8 | r->b);
}

static uint32_t value_of(const struct record *r)
{
	uint32_t v = (uint32_t)r->b | (uint32_t)r->c << 8 | (uint32_t)(r->b ^ r->a) << 16 |
		     (uint32_t)(r->c & 0x83) << 24;
	uint16_t port = port_of(r);

	/* Most inputs would only end the VM. */
	if (r->c < 0xe0 && (port == 0xcf9 || port == 0xcf8))
		v &= ~0x0404u;
	if (r->c < 0xe0 && (port == 0x600 || port == 0x5ff))
		v &= ~0x2020u;
	if (r->c < 0xe0 && port >= 0x61 && port <= 0x64)
		v &= 0x77777777;
	return v;
}

/* Addresses of a PC's devices that are not RAM here, among them the APICs' pages, which are only
 * read. */
static uint32_t address_of(const struct record *r, bool store)
{
	static const uint32_t some[] = {0xe0000000, 0xc0000000, 0xd0000000, 0xfed00000,
					0xfed40000, 0xffff0000, 0xfffff000, 0xfeb00000,
					0xfebff000, 0xfec00000, 0xfee00000, 0xfee01000};
	uint32_t base = some[r->a % (store ? 9 : 12)];

	return base + ((uint32_t)r->b << 4 | r->c >> 4);
}

static void put(uint8_t **p, const char *bytes, size_t n)
{
	memcpy(*p, bytes, n);
	*p += n;
}

static void put32(uint8_t **p, uint32_t x)
{
	memcpy(*p, &x, 4);
	*p += 4;
}

/* RAX, and its former value, to the log. */
static void put_log(uint8_t **p)
{
	/* mov %rax,(%rdi); mov %rsi,8(%rdi); add $16,%rdi */
	put(p, "\x48\x89\x07\x48\x89\x77\x08\x48\x83\xc7\x10", 11);
}

/* mov $BEFORE | size,%rsi; mov %rsi,%rax */
static void put_before(uint8_t **p, unsigned int size)
{
	uint64_t x = BEFORE | size;

	put(p, "\x48\xbe", 2);
	put(p, (const char *)&x, 8);
	put(p, "\x48\x89\xf0", 3);
}

/* The slot of one record. RBX is free. */
static void put_record(uint8_t *p, const struct record *r)
{
	uint8_t *end = p + SLOT;
	unsigned int size = 1u << r->c % 3;

	memset(p, 0x90, SLOT);
	switch (r->kind % 12) {
	case 0: /* out */
	case 1:
	case 2:
		put(&p, "\xba", 1);
		put32(&p, port_of(r));
		put(&p, "\xb8", 1);
		put32(&p, value_of(r));
		put(&p, size == 1 ? "\xee" : size == 2 ? "\x66\xef" : "\xef", 1 + (size == 2));
		break;
	case 3: /* in */
	case 4:
		put(&p, "\xba", 1);
		put32(&p, port_of(r));
		put_before(&p, size);
		put(&p, size == 1 ? "\xec" : size == 2 ? "\x66\xed" : "\xed", 1 + (size == 2));
		put_log(&p);
		break;
	case 5: /* a register of the UART, in a byte */
		put(&p, "\xba", 1);
		put32(&p, PLATFORM_COM1 + r->a % 8);
		put(&p, "\xb0", 1);
		put(&p, (const char *)&r->b, 1);
		put(&p, "\xee", 1);
		break;
	case 6: /* in or out at a fixed port, and with a prefix that has no meaning */
		put_before(&p, size == 4 ? 4 : 1);
		put(&p, r->a & 0x80 ? "\xf3" : "\x90", 1);
		put(&p, size == 4 ? "\xe5" : "\xe4", 1);
		put(&p, r->a & 1 ? "\x64" : (const char *)&r->b, 1);
		put_log(&p);
		break;
	case 7: /* a load where there is no RAM; MOVZX of 1 and 2 bytes */
		put(&p, "\xb9", 1);
		put32(&p, address_of(r, false));
		put_before(&p, 0);
		put(&p,
		    size == 1	? "\x0f\xb6\x01"
		    : size == 2 ? "\x0f\xb7\x01"
				: "\x48\x8b\x01",
		    3);
		put_log(&p);
		break;
	case 8: /* a store there, or a read-modify-write */
		put(&p, "\xb9", 1);
		put32(&p, address_of(r, true));
		put(&p, "\xb8", 1);
		put32(&p, value_of(r));
		put(&p,
		    size == 1	? "\x88\x01"
		    : size == 2 ? "\x66\x89\x01"
				: "\xf0\x0f\xc1\x01",
		    size == 4 ? 4 : 1 + size);
		break;
	case 9: /* rep movsb from there to SCRATCH, rep stosl to there */
		put(&p, "\x48\x89\xfb\xbf", 4);
		put32(&p, r->c & 1 ? SCRATCH : address_of(r, true));
		put(&p, "\xbe", 1);
		put32(&p, address_of(r, false));
		put(&p, "\xb9", 1);
		put32(&p, 1 + r->c % 16);
		put(&p, r->c & 1 ? "\xf3\xa4" : "\xf3\xab", 2);
		put(&p, "\x48\x89\xdf", 3);
		break;
	case 10: /* sti, cli, or a loop; rarely INS, which the emulator does not have */
		if (r->a < 0x60) {
			put(&p, "\xfb", 1);
		} else if (r->a < 0x80) {
			put(&p, "\xfa", 1);
		} else if (r->a == 0xff && r->b == 0xff) {
			put(&p, "\xf3\x6c", 2);
		} else {
			put(&p, "\xb9", 1);
			put32(&p, 1 + r->b % 64);
			put(&p, "\xff\xc9\x75\xfc", 4);
		}
		break;
	default: /* PCI's configuration: an address, then some of the data's ports */
		put(&p, "\xba\xf8\x0c\0\0\xb8", 6);
		put32(&p, (r->b & 0x80 ? 0 : 1u << 31) | (uint32_t)(r->c >> 6) << 11 |
				  (r->a & 0x3fu) << 2);
		put(&p, "\xef\xba", 2);
		put32(&p, 0xcfc + (r->c & 3));
		size = 1u << (r->c >> 2) % 3;
		put_before(&p, size);
		put(&p, size == 1 ? "\xec" : size == 2 ? "\x66\xed" : "\xed", 1 + (size == 2));
		put_log(&p);
		break;
	}
	CHECK(p <= end, "slot");
}

/* The image: one segment with code and the IDT. */
static void make_image(const struct record *r, size_t n, unsigned int flags)
{
	static struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		uint8_t at[0x3000];
	} f;
	size_t irq = (size_t)(guest_irq - guest_begin);
	uint8_t *p = f.at + (SLOTS - AT);
	uint64_t gate[2];

	memset(&f, 0, sizeof(f));
	f.eh = elf_program(AT, 1);
	f.ph = elf_segment(PF_R | PF_W | PF_X, AT, offsetof(__typeof__(f), at), sizeof(f.at));
	CHECK(guest_begin_end - guest_begin <= SLOTS - AT, "the guest's beginning");
	memcpy(f.at, guest_begin, (size_t)(guest_begin_end - guest_begin));
	/* An interrupt gate of the boot protocol's CS. */
	gate[0] = ((AT + irq) & 0xffff) | 0x10ull << 16 | 0x8eull << 40 |
		  (uint64_t)((AT + irq) >> 16) << 48;
	gate[1] = 0;
	memcpy(f.at + (IDT - AT) + 0x40 * sizeof(gate), gate, sizeof(gate));
	if (flags & 1) /* sti first, with the UART's interrupts on */
		put(&p, "\xba\xf9\x03\0\0\xb0\x07\xee\xfb", 9);
	for (size_t i = 0; i < n; i++, p += SLOT)
		put_record(p, &r[i]);
	/* Again, with an empty log: mov $LOG,%edi; jmp SLOTS. The jump is relative to its end. */
	put(&p, "\xbf", 1);
	put32(&p, LOG);
	put(&p, "\xe9", 1);
	put32(&p, (uint32_t)(f.at + (SLOTS - AT) - (p + 4)));
	CHECK(p <= f.at + (IDT - AT), "records");
	CHECK(pwrite(image_fd, &f, sizeof(f), 0) == (ssize_t)sizeof(f), "image");
}

/* IN gives as many bytes as it should: those of 1 and 2 leave the rest of RAX alone, 4 clears it,
 * and so does a load by MOVZX, as the log does not have its size. */
static void check_log(const struct machine_vm *vm)
{
	const uint8_t *ram = vm->vm->ram.base;

	for (uint64_t at = LOG; at < LOG_END; at += 16) {
		uint64_t rax, before;
		unsigned int size;

		memcpy(&rax, ram + at, 8);
		memcpy(&before, ram + at + 8, 8);
		if ((before & ~0xffull) != BEFORE)
			return;
		size = before & 0xff;
		if (size == 1 || size == 2)
			CHECK((rax ^ before) >> 8 * size == 0, "IN of %u bytes: RAX is %lx", size,
			      rax);
		else if (size == 4)
			CHECK(rax >> 32 == 0, "IN of 4 bytes: RAX is %lx", rax);
	}
}

/* ---- the host ---- */

static struct machine_vm *save_and_restore(struct machine_vm *vm)
{
	char err[500] = "";

	write_vm(vm);
	machine_vm_remove(vm);
	CHECK(!snapshot_restore(machine, file_fd, "snapshot", &said, &vm, err, sizeof(err)),
	      "cannot be restored: %s", err);
	CHECK(!machine_vm_start(vm, err, sizeof(err)), "%s", err);
	return vm;
}

/* An access on the bus of one more vCPU, made as vcpu_devices() makes them. (A second vCPU of the
 * guest would alternate with the first one, so clocks would depend on the moment.) */
static void other_vcpu(struct vm *vm, const struct record *r)
{
	struct bus bus = {0};
	unsigned int size = 1u << r->c % 3;
	uint64_t got;

	CHECK(!vm_devices_claim(vm->devices, &bus), "bus");
	if (r->kind & 1) {
		bus_write(&bus, port_of(r), size, value_of(r));
		return;
	}
	got = bus_read(&bus, port_of(r), size);
	CHECK(got >> 8 * size == 0, "a read of %u bytes gave %lx", size, got);
	digest(&got, sizeof(got));
}

static struct machine_vm *act(struct machine_vm *vm, const struct record *r, bool saves)
{
	uint8_t text[INPUT_MAX];

	switch (r->kind >> 5) {
	case 0:
	case 1:
		memset(text, r->b, sizeof(text));
		if (vm_input(vm->vm, text, r->a % sizeof(text), r->a & 1) < 0)
			CHECK(false, "no input");
		break;
	case 2:
	case 3:
	case 4:
		other_vcpu(vm->vm, r);
		break;
	default:
		if (saves)
			vm = save_and_restore(vm);
		break;
	}
	return vm;
}

static void run(struct outcome *o, const struct record *actions, size_t n, bool saves)
{
	struct machine_vm *vm;

	*o = (struct outcome){.digest = 1, .file = o->file};
	running = o;
	machine->seeded = 0; /* both kernels get the same seed */
	vm = add_vm("vcpus=1,memory=4M,kernel", image_fd, NULL);
	for (size_t i = 0; i < ACTIONS; i++) {
		machine_step(machine, SLICES);
		machine_reap(machine);
		if (!vm->vm || vm_failing(vm->vm))
			break;
		if (i < n)
			vm = act(vm, &actions[i], saves);
		if (vm_failing(vm->vm)) /* the other vCPU has ended it */
			break;
	}
	machine_step(machine, SLICES);
	machine_reap(machine);
	if (vm->vm) {
		o->state = machine_vm_state(vm);
		CHECK(o->state == VM_RUNNING, "%s", vm_state_name(o->state));
		CHECK(!vm_unplace(vm->vm), "engine");
		check_log(vm);
		o->bytes = write_vm(vm);
		read_file(o->file, o->bytes);
	} else {
		o->state = vm->state;
		o->how = vm->how;
		memcpy(o->reason, vm->reason, sizeof(o->reason));
		CHECK(!strchr(o->reason, '\n') && (o->state != VM_FAILED || *o->reason),
		      "the reason is no line: %s", o->reason);
	}
	machine_vm_remove(vm);
}

static void compare(const struct outcome *a, const struct outcome *b)
{
	CHECK(a->state == b->state && a->how == b->how && !strcmp(a->reason, b->reason),
	      "state %d, %d, \"%s\"; saved and restored %d, %d, \"%s\"", a->state, a->how,
	      a->reason, b->state, b->how, b->reason);
	CHECK(a->digest == b->digest, "saving changed what was printed or read");
	CHECK(a->bytes == b->bytes, "saving changed the state: %zu bytes, %zu", a->bytes, b->bytes);
	for (size_t i = 0; i < a->bytes; i++)
		CHECK(a->file[i] == b->file[i], "saving changed byte %zu of the state: %02x, %02x",
		      i, a->file[i], b->file[i]);
}

static void begin(struct outcome o[2])
{
	urcu_memb_register_thread();
	atexit(urcu_memb_barrier);
	make_machine(150);
	image_fd = memfd_create("kernel", MFD_CLOEXEC);
	for (int i = 0; i < 2; i++)
		o[i].file = malloc(FILE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct outcome o[2];
	static unsigned int runs;
	struct record actions[ACTIONS], r[RECORDS];
	size_t na, n;

	if (size < 2 + 2 * sizeof(r[0]))
		return -1;
	if (!runs++)
		begin(o);
	na = data[1] % (ACTIONS + 1);
	if (na > (size - 2) / sizeof(r[0]))
		na = (size - 2) / sizeof(r[0]);
	memcpy(actions, data + 2, na * sizeof(r[0]));
	n = (size - 2) / sizeof(r[0]) - na;
	if (n > RECORDS)
		n = RECORDS;
	memcpy(r, data + 2 + na * sizeof(r[0]), n * sizeof(r[0]));
	make_image(r, n, data[0]);
	for (int i = 0; i < 2; i++)
		run(&o[i], actions, na, i);
	compare(&o[0], &o[1]);
	if (!(runs % 64))
		urcu_memb_barrier();
	return 0;
}
