//go:build linux && apps

package apps

// job is a job of fio's rdma engine with what both sides say. The server has no
// bindname: fio takes its first character for the address.
func job(label, server, client string) exchange {
	const same = "fio --name=job --ioengine=rdma --port=$PORT --bs=64k --iodepth=8 --size=16m "
	return exchange{
		program: "fio", label: label,
		server: same + "--rw=read " + server, client: same + "--hostname=$ADDR --bindname=$ADDR " + client,
		says: []string{`err= 0`, `(READ|WRITE): bw=`}, answers: []string{`err= 0`},
	}
}

var fio = []exchange{
	job("verb=write", "", "--verb=write --rw=write"),
	job("verb=read", "", "--verb=read --rw=read"),
	job("verb=send", "", "--verb=send --rw=write"),
	job("verb=write numjobs=4", "--numjobs=4", "--verb=write --rw=write --numjobs=4"),
	job("verb=send numjobs=4", "--numjobs=4", "--verb=send --rw=write --numjobs=4"),
	job("verb=send verify=crc32c", "--verify=crc32c", "--verb=send --rw=write --verify=crc32c --do_verify=0"),
	job("verb=write thread=1", "--thread=1", "--verb=write --rw=write --thread=1"),
}
