fn main(){ for f in std::env::args().skip(1){ let b=std::fs::read(&f).unwrap(); let r=muster::shell::script(&b); for x in r { println!("{f}:{}: {} {}",x.line,x.rule,x.detail); } } }
